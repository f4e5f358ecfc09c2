//! The meaning of result codes.

/// Whether the error belongs to work done earlier, and comes back from every call that follows.
pub fn is_sticky(code: u32) -> bool {
    const ECC_UNCORRECTABLE: u32 = 214;
    const ILLEGAL_ADDRESS: u32 = 700;
    const LAUNCH_TIMEOUT: u32 = 702;
    const ASSERT: u32 = 710;
    const HARDWARE_STACK_ERROR: u32 = 714;
    const LAUNCH_FAILED: u32 = 719;
    matches!(code, ECC_UNCORRECTABLE | ILLEGAL_ADDRESS | LAUNCH_TIMEOUT | ASSERT)
        || (HARDWARE_STACK_ERROR..=LAUNCH_FAILED).contains(&code)
}
