//! The end of a context and of all its objects.

use std::sync::Arc;

use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::base::registry::handle_of;
use crate::memory::graph_allocation;
use crate::memory::{allocate, table};
use crate::objects::{array, module, texture};
use crate::streams::context::{self, Context};
use crate::streams::{event, stream};

pub(crate) fn destroy(handle: Handle) -> Result {
    let context = context::find(handle)?;
    if context.primary {
        return Err(Code::INVALID_CONTEXT);
    }
    close(&context);
    if context.is_green() {
        release_primary(context.device)?;
    }
    if context::current_handle() == handle {
        context::pop().ok();
    }
    Ok(())
}

/// Waits for the context's work and gives back all that belongs to it.
fn close(context: &Arc<Context>) {
    context.lanes.wait_all();
    context::remove(context);
    stream::close_all(context);
    // What else was made while a green one was current outlives it (driver 580:
    // tests/gpu/facts/green_context_ends.c).
    if context.is_green() {
        return;
    }
    event::close_all(context);
    module::close_all(context);
    array::close_all(context);
    texture::close_all(context.id);
    let handle = handle_of(context);
    graph_allocation::close_all(handle);
    for range in table::remove_all(|r| r.context == handle) {
        allocate::release(range);
    }
}

pub(crate) fn release_primary(device: i32) -> Result {
    close_primary(device, context::unretain_primary(device)?)
}

pub(crate) fn reset_primary(device: i32) -> Result {
    // Those who retain it do so on (cuda.h).
    close_primary(device, context::take_primary(device)?)
}

fn close_primary(device: i32, context: Option<Arc<Context>>) -> Result {
    let Some(context) = context else { return Ok(()) };
    close(&context);
    context::keep_primary(device, context)
}
