// SPDX-License-Identifier: GPL-3.0-or-later
//! Words by which Slurm prints its numbers.

use std::ffi::CStr;
use std::fmt;

use super::values::{JobState, NodeState};
use crate::shim;

/// Returns Slurm's word for a number of `enum job_state_reason`, e.g. `Resources`.
///
/// May be called from any thread: it only reads a constant table.
pub fn reason_text(reason: u32) -> String {
    // SAFETY: the function takes any number and returns a string constant
    // with a final NUL that lives as long as libslurm; it has no state.
    let text = unsafe { CStr::from_ptr(shim::pls_reason_string(reason)) };
    text.to_string_lossy().into_owned()
}

/// Returns Slurm's word for a job state number without its flags, e.g. `COMPLETED`.
pub fn job_state_text(state: u32) -> String {
    JobState(state).base().as_str().to_owned()
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base().as_str())?;
        if self.is_completing() {
            f.write_str("+COMPLETING")?;
        }
        if self.is_configuring() {
            f.write_str("+CONFIGURING")?;
        }
        Ok(())
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FLAGS: [(u32, &str); 14] = [
            (shim::PLS_NODE_CLOUD, "CLOUD"),
            (shim::PLS_NODE_COMPLETING, "COMPLETING"),
            (shim::PLS_NODE_DRAIN, "DRAIN"),
            (shim::PLS_NODE_FAIL, "FAIL"),
            (shim::PLS_NODE_INVALID_REG, "INVALID_REG"),
            (shim::PLS_NODE_MAINT, "MAINT"),
            (shim::PLS_NODE_NO_RESPOND, "NOT_RESPONDING"),
            (shim::PLS_NODE_PLANNED, "PLANNED"),
            (shim::PLS_NODE_POWER_DOWN, "POWER_DOWN"),
            (shim::PLS_NODE_POWERED_DOWN, "POWERED_DOWN"),
            (shim::PLS_NODE_POWERING_DOWN, "POWERING_DOWN"),
            (shim::PLS_NODE_POWERING_UP, "POWERING_UP"),
            (shim::PLS_NODE_REBOOT_ISSUED, "REBOOT_ISSUED"),
            (shim::PLS_NODE_REBOOT_REQUESTED, "REBOOT_REQUESTED"),
        ];
        f.write_str(self.base().as_str())?;
        for (_, name) in FLAGS.iter().filter(|(flag, _)| self.has(*flag)) {
            write!(f, "+{name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(reason_text(0), "None");
        assert_eq!(reason_text(1), "Priority");
        assert_eq!(job_state_text(0x8003), "COMPLETED");
        assert_eq!(JobState(0x8003).to_string(), "COMPLETED+COMPLETING");
        assert_eq!(NodeState(2 | 1 << 9).to_string(), "IDLE+DRAIN");
    }
}
