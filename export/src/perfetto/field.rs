//! The fields of Perfetto's messages in use, with their numbers in `perfetto_trace.proto`.

pub(crate) const PACKET: u64 = 1;
// TracePacket
pub(crate) const TIMESTAMP: u64 = 8;
pub(crate) const SEQUENCE: u64 = 10;
pub(crate) const TRACK_EVENT: u64 = 11;
pub(crate) const INTERNED: u64 = 12;
pub(crate) const FLAGS: u64 = 13;
pub(crate) const DESCRIPTOR: u64 = 60;
// TrackDescriptor
pub(crate) const UUID: u64 = 1;
pub(crate) const NAME: u64 = 2;
pub(crate) const PROCESS: u64 = 3;
pub(crate) const THREAD: u64 = 4;
pub(crate) const PARENT: u64 = 5;
pub(crate) const COUNTER: u64 = 8;
// ProcessDescriptor
pub(crate) const PID: u64 = 1;
pub(crate) const COMMAND_LINE: u64 = 2;
pub(crate) const PROCESS_NAME: u64 = 6;
// CounterDescriptor
pub(crate) const UNIT: u64 = 3;
// ThreadDescriptor
pub(crate) const THREAD_PID: u64 = 1;
pub(crate) const TID: u64 = 2;
pub(crate) const THREAD_NAME: u64 = 5;
// TrackEvent
pub(crate) const CATEGORY_IID: u64 = 3;
pub(crate) const ANNOTATION: u64 = 4;
pub(crate) const TYPE: u64 = 9;
pub(crate) const NAME_IID: u64 = 10;
pub(crate) const TRACK: u64 = 11;
pub(crate) const EVENT_NAME: u64 = 23;
pub(crate) const COUNTER_VALUE: u64 = 30;
pub(crate) const FLOW: u64 = 47;
pub(crate) const LAST_OF_FLOW: u64 = 48;
// InternedData
pub(crate) const CATEGORIES: u64 = 1;
pub(crate) const EVENT_NAMES: u64 = 2;
pub(crate) const ANNOTATION_NAMES: u64 = 3;
pub(crate) const IID: u64 = 1;
pub(crate) const INTERNED_NAME: u64 = 2;
// DebugAnnotation
pub(crate) const ANNOTATION_NAME: u64 = 1;
pub(crate) const ANNOTATION_TEXT: u64 = 10;
pub(crate) const BOOL: u64 = 2;
pub(crate) const UNSIGNED: u64 = 3;
pub(crate) const SIGNED: u64 = 4;
pub(crate) const DOUBLE: u64 = 5;
pub(crate) const STRING: u64 = 6;
pub(crate) const POINTER: u64 = 7;
pub(crate) const DICTIONARY: u64 = 11;
pub(crate) const ARRAY: u64 = 12;
