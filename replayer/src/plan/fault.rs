//! The failure of earlier work, as a later call returned it to the recorded program.
//!
//! No two runs return such a failure from the same call. The replay may return it once the work that can have
//! failed is in flight: from the first submission that no successful wait had covered when the program
//! received the failure. A failure before that is a different one.

use trace::Call;
use trace::api::results::is_sticky;
use trace::model::outstanding::Outstanding;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub code: u32,
    /// The first call that may fail with it.
    pub since: u64,
    /// The call by which the program returned_by of it.
    pub returned_by: u64,
}

impl Fault {
    /// If this call was told of one while that work was outstanding.
    pub(crate) fn from_call(call: &Call, work: &Outstanding) -> Option<Fault> {
        let code = call.result.filter(|code| is_sticky(*code))?;
        let since = work.under_way().min().unwrap_or(call.number).min(call.number);
        Some(Fault { code, since, returned_by: call.number })
    }
}

#[cfg(test)]
mod tests {
    use crate::base::sample::Sample;
    use crate::plan::plan;

    const AT: u64 = 0x7f00_1234_0000;
    const ILLEGAL_ADDRESS: u32 = 700;

    /// cuInit, a launch, then the calls of `between`, a launch at time 100, and a failure.
    fn since(between: impl Fn(&mut Sample)) -> u64 {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.launch(0, 10..11, AT);
        between(&mut sample);
        sample.launch(0, 100..101, AT);
        sample.failed(0, "cuCtxSynchronize", 110..120, ILLEGAL_ADDRESS, &[]);
        let fault = plan(&sample.trace()).fault.expect("a fault");
        assert_eq!(fault.code, ILLEGAL_ADDRESS);
        fault.since
    }

    #[test]
    fn work_that_was_waited_for_did_not_fail() {
        assert_eq!(since(|_| {}), 1);
        assert_eq!(since(|sample| sample.call(0, "cuCtxSynchronize", 20..21, &[], &[])), 3);
        assert_eq!(since(|sample| sample.call(0, "cuStreamSynchronize", 20..21, &[0], &[])), 3);
        assert_eq!(since(|sample| sample.copy_out(0, 20..21, AT, 100)), 3);
        // The same stream by its other name; another one tells nothing.
        assert_eq!(since(|sample| sample.call(0, "cuStreamSynchronize", 20..21, &[1], &[])), 3);
        assert_eq!(since(|sample| sample.call(0, "cuStreamSynchronize", 20..21, &[2], &[])), 1);
        assert_eq!(since(|sample| sample.call(0, "cuStreamSynchronize", 20..21, &[0x50], &[])), 1);
    }

    #[test]
    fn a_wait_for_the_legacy_stream_covers_blocking_ones() {
        for (flags, expected) in [(0, 6), (1, 4)] {
            let with_stream = |sample: &mut Sample| {
                sample.call(0, "cuStreamSynchronize", 11..12, &[0], &[]);
                sample.call(0, "cuStreamCreate", 12..13, &[0x100, flags], &[(0x100, &0x50u64.to_le_bytes())]);
                sample.call(0, "cuMemsetD8Async", 14..15, &[AT, 0, 1, 0x50], &[]);
                sample.call(0, "cuStreamSynchronize", 16..17, &[0], &[]);
            };
            assert_eq!(since(with_stream), expected);
        }
    }

    #[test]
    fn an_event_covers_what_was_before_it() {
        let with_event = |sample: &mut Sample| {
            sample.call(0, "cuEventRecord", 20..21, &[0xe0, 0], &[]);
            sample.launch(0, 22..23, AT);
            sample.call(0, "cuEventSynchronize", 30..31, &[0xe0], &[]);
        };
        assert_eq!(since(with_event), 3);
    }
}
