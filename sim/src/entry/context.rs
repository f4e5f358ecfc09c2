//! Contexts.

use std::sync::atomic::Ordering::Relaxed;

use super::declare::entries;
use crate::abi::code::Code;
use crate::abi::structs::ContextParameters;
use crate::abi::{Handle, Input, Out};
use crate::base::registry::handle_of;
use crate::base::{device, state};
use crate::graphs::capture::check_context;
use crate::objects::teardown;
use crate::streams::{context, event};

entries! {
    fn cuCtxCreate_v2(made: Out<Handle>, flags: u32, dev: i32) {
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(context::create(dev, flags, 3020)?)
    }

    fn cuCtxCreate_v3(made: Out<Handle>, affinity: Input<[u32; 2]>, count: i32, flags: u32, dev: i32) {
        if made.is_null() || count > 0 && affinity.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        if count > 0 {
            return Err(Code::UNSUPPORTED_EXEC_AFFINITY);
        }
        made.set(context::create(dev, flags, 3030)?)
    }

    fn cuCtxCreate_v4(made: Out<Handle>, parameters: Input<ContextParameters>, flags: u32, dev: i32) {
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        if let Ok(parameters) = parameters.get()
            && (parameters.affinity_count > 0 || !parameters.affinity.is_null() || !parameters.cig.is_null())
        {
            return Err(Code::UNSUPPORTED_EXEC_AFFINITY);
        }
        made.set(context::create(dev, flags, 3040)?)
    }

    fn cuCtxDestroy_v2(ctx: Handle) {
        teardown::destroy(ctx)
    }

    fn cuCtxPushCurrent_v2(ctx: Handle) {
        context::push(ctx)
    }

    fn cuCtxPopCurrent_v2(popped: Out<Handle>) {
        let top = context::pop()?;
        popped.set_if(top);
        Ok(())
    }

    fn cuCtxSetCurrent(ctx: Handle) {
        context::set_current(ctx)
    }

    fn cuCtxGetCurrent(ctx: Out<Handle>) {
        context::permitted()?;
        ctx.set(context::current_handle())
    }

    fn cuCtxGetDevice(dev: Out<i32>) {
        dev.set(context::current()?.device)
    }

    fn cuCtxGetDevice_v2(dev: Out<i32>, ctx: Handle) {
        dev.set(context::find_or_current(ctx)?.device)
    }

    fn cuCtxGetFlags(flags: Out<u32>) {
        flags.set(context::current()?.flags.load(Relaxed))
    }

    fn cuCtxSetFlags(flags: u32) {
        context::current()?.flags.store(flags, Relaxed);
        Ok(())
    }

    fn cuCtxGetId(ctx: Handle, id: Out<u64>) {
        id.set(context::find_or_current(ctx)?.id)
    }

    fn cuCtxSynchronize() {
        let context = context::current()?;
        check_context(handle_of(&context))?;
        state::slow_down();
        context.synchronize()
    }

    fn cuCtxSynchronize_v2(ctx: Handle) {
        let context = context::find_or_current(ctx)?;
        state::slow_down();
        context.synchronize()
    }

    fn cuCtxSetLimit(limit: u32, value: usize) {
        context::current()?.set_limit(limit, value as u64)
    }

    fn cuCtxGetLimit(value: Out<usize>, limit: u32) {
        value.set(context::current()?.limit(limit)? as usize)
    }

    fn cuCtxGetCacheConfig(config: Out<u32>) {
        config.set(context::current()?.cache_preference.load(Relaxed))
    }

    fn cuCtxSetCacheConfig(config: u32) {
        context::current()?.cache_preference.store(config, Relaxed);
        Ok(())
    }

    fn cuCtxGetSharedMemConfig(config: Out<u32>) {
        config.set(context::current()?.shared_bank_size.load(Relaxed))
    }

    fn cuCtxSetSharedMemConfig(config: u32) {
        context::current()?.shared_bank_size.store(config, Relaxed);
        Ok(())
    }

    fn cuCtxGetApiVersion(ctx: Handle, version: Out<u32>) {
        version.set(context::find_or_current(ctx)?.api_version)
    }

    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        context::current()?;
        least.set_if(0);
        greatest.set_if(-5);
        Ok(())
    }

    /// All multiprocessors, whoever asks.
    fn cuCtxGetExecAffinity(affinity: Out<[u32; 2]>, kind: u32) {
        context::current()?;
        if kind != 0 {
            return Err(Code::UNSUPPORTED_EXEC_AFFINITY);
        }
        affinity.set([kind, device::MULTIPROCESSORS as u32])
    }

    fn cuCtxRecordEvent(ctx: Handle, hevent: Handle) {
        event::find(hevent)?.record_all(&context::find_or_current(ctx)?)
    }

    /// What the context is given later comes later for that the caller waits here.
    fn cuCtxWaitEvent(ctx: Handle, hevent: Handle) {
        context::find_or_current(ctx)?.check()?;
        event::find(hevent)?.synchronize()
    }

    fn cuCtxResetPersistingL2Cache() {
        context::current().map(drop)
    }

    fn cuCtxAttach(ctx: Out<Handle>, flags: u32) {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let context = context::current()?;
        context.attached.fetch_add(1, Relaxed);
        ctx.set(handle_of(&context))
    }

    /// Destroys a context that nobody has attached to.
    fn cuCtxDetach(ctx: Handle) {
        let context = context::find(ctx)?;
        if context.attached.fetch_update(Relaxed, Relaxed, |n: u32| n.checked_sub(1)).is_ok() {
            return Ok(());
        }
        teardown::destroy(ctx)
    }

    fn cuCtxEnablePeerAccess(peer: Handle, flags: u32) {
        let (context, peer_context) = (context::usable()?, context::find(peer)?);
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if context.device == peer_context.device {
            return Err(Code::INVALID_CONTEXT);
        }
        if context.peers.lock().insert(peer) { Ok(()) } else { Err(Code::PEER_ACCESS_ALREADY_ENABLED) }
    }

    fn cuCtxDisablePeerAccess(peer: Handle) {
        context::find(peer)?;
        if context::usable()?.peers.lock().remove(&peer) { Ok(()) } else { Err(Code::PEER_ACCESS_NOT_ENABLED) }
    }
}
