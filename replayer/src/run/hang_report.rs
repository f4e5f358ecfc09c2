//! Reports on calls that do not return, and the time after which a replay gives up.

use crate::base::error::Error;
use crate::job::peer_waits::{PeerWait, awaiting, may_await};
use crate::options::Progress;
use crate::run::state::Run;
use crate::run::watchdog::{PATIENCE, Watchdog};
use std::thread::{Builder, Scope};
use std::time::Duration;
use trace::Trace;

/// What may wait for processes that are not here is told after so long.
const SOON: Duration = Duration::from_secs(10);
/// And given up after so long: a kernel may take long by itself, too.
const LONG: Duration = Duration::from_secs(600);

/// Looks on in threads of its own, until the watchdog's end. What is only told may go untold where there can be
/// no thread; not that the replay gives up.
pub(crate) fn attend<'s>(
    scope: &'s Scope<'s, '_>,
    run: &'s Run,
    watchdog: &'s Watchdog,
    limit: Option<Duration>,
    progress: &'s dyn Progress,
) -> Result<(), Error> {
    let stalled = |calls: &[u64]| progress.stalled(PATIENCE, &call_names(run.trace, calls));
    let _untold = Builder::new().spawn_scoped(scope, move || watchdog.watch(|_| PATIENCE, stalled));
    let lacks_others = run.company.is_none() && may_await(run.trace, run.plan);
    let others = move |calls: &[u64]| -> Vec<PeerWait> {
        if lacks_others { awaiting(run.trace, run.plan, calls) } else { Vec::new() }
    };
    if lacks_others {
        let tell = move |calls: &[u64]| match &others(calls)[..] {
            [] => {}
            others => progress.awaits_others(SOON, &call_names(run.trace, calls), others),
        };
        let _untold = Builder::new().spawn_scoped(scope, move || watchdog.watch(|_| SOON, tell));
    }
    if lacks_others || limit.is_some() {
        let longest = limit.unwrap_or(LONG);
        let tell = move |calls: &[u64]| {
            if limit.is_some() || !others(calls).is_empty() {
                progress.gives_up(longest, &call_names(run.trace, calls));
            }
        };
        let started = Builder::new().spawn_scoped(scope, move || watchdog.watch(|_| longest, tell));
        started.map_err(|source| Error::Watch { source })?;
    }
    Ok(())
}

fn call_names(trace: &Trace, calls: &[u64]) -> Vec<(u64, String)> {
    let name = |call: trace::Call| match call.named_kernel() {
        Some(kernel) if !kernel.name.is_empty() => format!("{} of {}", call.name(), kernel.name),
        _ => call.name().to_owned(),
    };
    calls.iter().filter_map(|call| Some((*call, name(trace.call(*call)?)))).collect()
}
