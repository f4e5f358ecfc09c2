//! The packed form of kernel arguments: `(code, value)` pairs up to the code 0, then a buffer laid out like
//! the device's parameters.

/// Code of the address of the buffer (CU_LAUNCH_PARAM_BUFFER_POINTER).
pub const BUFFER: u64 = 1;
/// Code of the address of a word that holds the buffer's size (CU_LAUNCH_PARAM_BUFFER_SIZE).
pub const SIZE: u64 = 2;
const END: u64 = 0;
/// More pairs than there are codes.
const MOST: u64 = 8;

/// The array as it lies in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    /// Codes (`CU_LAUNCH_PARAM_BUFFER_POINTER` ...) with their values, in the order of the array.
    pub pairs: Vec<(u64, u64)>,
    /// Bytes of the array, its end included.
    pub len: u64,
    /// Whether the end was found.
    pub is_whole: bool,
}

impl Extra {
    /// `word` gives the 8 bytes at an address, where they are known.
    pub fn read(address: u64, word: impl Fn(u64) -> Option<u64>) -> Extra {
        let mut extra = Extra { pairs: Vec::new(), len: 0, is_whole: false };
        for _ in 0..MOST {
            let at = address.wrapping_add(extra.len);
            match word(at) {
                None => break,
                Some(END) => {
                    extra.len += 8;
                    extra.is_whole = true;
                    break;
                }
                Some(code) => {
                    let Some(value) = word(at.wrapping_add(8)) else { break };
                    extra.pairs.push((code, value));
                    extra.len += 16;
                }
            }
        }
        extra
    }

    /// Where the buffer lies.
    pub fn buffer(&self) -> Option<u64> {
        self.value(BUFFER)
    }

    /// Where its size stands.
    pub fn size_at(&self) -> Option<u64> {
        self.value(SIZE)
    }

    /// The last of several, as the driver takes it.
    fn value(&self, wanted: u64) -> Option<u64> {
        self.pairs.iter().rev().find(|(code, _)| *code == wanted).map(|(_, value)| *value)
    }
}
