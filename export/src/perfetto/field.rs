//! The fields of Perfetto's messages in use, with their numbers in `perfetto_trace.proto`.

pub const PACKET: u64 = 1;
// TracePacket
pub const TIMESTAMP: u64 = 8;
pub const SEQUENCE: u64 = 10;
pub const TRACK_EVENT: u64 = 11;
pub const INTERNED: u64 = 12;
pub const FLAGS: u64 = 13;
pub const DESCRIPTOR: u64 = 60;
// TrackDescriptor
pub const UUID: u64 = 1;
pub const NAME: u64 = 2;
pub const PROCESS: u64 = 3;
pub const THREAD: u64 = 4;
pub const PARENT: u64 = 5;
pub const COUNTER: u64 = 8;
// ProcessDescriptor
pub const PID: u64 = 1;
pub const COMMAND_LINE: u64 = 2;
pub const PROCESS_NAME: u64 = 6;
// CounterDescriptor
pub const UNIT: u64 = 3;
// ThreadDescriptor
pub const THREAD_PID: u64 = 1;
pub const TID: u64 = 2;
pub const THREAD_NAME: u64 = 5;
// TrackEvent
pub const CATEGORY_IID: u64 = 3;
pub const ANNOTATION: u64 = 4;
pub const TYPE: u64 = 9;
pub const NAME_IID: u64 = 10;
pub const TRACK: u64 = 11;
pub const EVENT_NAME: u64 = 23;
pub const COUNTER_VALUE: u64 = 30;
pub const FLOW: u64 = 47;
pub const LAST_OF_FLOW: u64 = 48;
// InternedData
pub const CATEGORIES: u64 = 1;
pub const EVENT_NAMES: u64 = 2;
pub const ANNOTATION_NAMES: u64 = 3;
pub const IID: u64 = 1;
pub const INTERNED_NAME: u64 = 2;
// DebugAnnotation
pub const ANNOTATION_NAME: u64 = 1;
pub const ANNOTATION_TEXT: u64 = 10;
pub const BOOL: u64 = 2;
pub const UNSIGNED: u64 = 3;
pub const SIGNED: u64 = 4;
pub const DOUBLE: u64 = 5;
pub const STRING: u64 = 6;
pub const POINTER: u64 = 7;
pub const DICTIONARY: u64 = 11;
pub const ARRAY: u64 = 12;
