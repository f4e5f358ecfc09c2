//! Events: marks in streams, for waits and timing.

#[macro_export]
macro_rules! event {
    ($($with:tt)+) => {
        $($with)+! {
            "event";
            cuEventCreate(phEvent: *mut CUevent = Create(One), Flags: u32 = CUevent_flags::BITS) create;
            cuEventDestroy_v2(hEvent: CUevent = Destroy) destroy;
            cuEventDestroy(hEvent: CUevent = Destroy) destroy;

            cuEventRecord(hEvent: CUevent, hStream: CUstream) submit | cuEventRecord_ptsz => Submit(RecordEvent);
            cuEventRecordWithFlags(hEvent: CUevent, hStream: CUstream, flags: u32 = CUevent_record_flags::BITS)
                submit | cuEventRecordWithFlags_ptsz => Submit(RecordEvent);

            cuEventQuery(hEvent: CUevent) poll custom;
            cuEventSynchronize(hEvent: CUevent) synchronize;
            // Answers "not ready" until both events have happened, then with a time that differs from run to
            // run.
            cuEventElapsedTime_v2(pMilliseconds: *mut f32 = Volatile(One), hStart: CUevent, hEnd: CUevent) poll custom;
            cuEventElapsedTime(pMilliseconds: *mut f32 = Volatile(One), hStart: CUevent, hEnd: CUevent) poll custom;
        }
    };
}

describe_family!(event);
