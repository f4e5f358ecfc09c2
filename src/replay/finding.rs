//! The flags of `replay` that look for what is wrong, in the program or in the replay.

use anyhow::Result;
use replayer::Tools;

#[derive(clap::Args)]
#[command(next_help_heading = "Finding the culprit")]
pub struct Finding {
    /// Wait for every launch, run graphs node by node, and name the first launch that fails, with its arguments
    ///
    /// As under CUDA_LAUNCH_BLOCKING, a launch that waits for a later call never ends. While a stream capture is under
    /// way, nothing is waited for.
    #[arg(long)]
    pub sync_launches: bool,
}

impl Finding {
    pub fn tools(&self) -> Result<Tools> {
        Ok(Tools { sync_launches: self.sync_launches })
    }
}
