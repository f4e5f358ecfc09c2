//! Kernels that read the clock, as a note of the verdict: their results may differ in every run.

use analysis::text::kernel_name::{Names, Style};
use replayer::Reason;
use trace::Trace;
use trace::code::varying::Cause;
use trace::show::sources::{launched, varying};
use trace::show::text::plain;

/// Kernels that are named; of more it is said how many.
const NAMED: usize = 5;

/// Of what was launched, as far as its code can be read.
pub(super) fn notes(trace: &Trace) -> Vec<String> {
    let (all, names) = (launched(trace), Names::new(Style::Short));
    let causes = varying(trace, &all.iter().collect::<Vec<_>>());
    let reads = |id| causes.get(&id).is_some_and(|found| found.as_ref().is_ok_and(|all| all.contains(&Cause::Clock)));
    let mut noted = Vec::<Reason>::new();
    for kernel in all.iter().filter(|launched| reads(launched.kernel.id)) {
        let what = format!("kernel {} {}", plain(&names.display_name(&kernel.kernel.name)), Cause::Clock.what());
        match noted.iter_mut().find(|note| note.what == what) {
            // The same kernel, loaded again.
            Some(note) => note.count += kernel.count,
            None => noted.push(Reason { what, count: kernel.count, calls: kernel.calls.clone() }),
        }
    }
    let more = noted.len().saturating_sub(NAMED);
    let named = noted.iter().take(NAMED).map(ToString::to_string);
    let unnamed = (more > 0).then(|| {
        let kernels = if more == 1 { "1 more kernel reads".into() } else { format!("{more} more kernels read") };
        format!("{kernels} the clock")
    });
    named.chain(unnamed).collect()
}
