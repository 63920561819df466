// SPDX-License-Identifier: GPL-3.0-or-later
//! The data service for the agent inside the daemon, which runs what is registered for `@master`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::clock::Now;
use super::service::Collect;
use crate::failure::Failure;
use phalanx_client::data_service::{Service, ServiceError};
use phalanx_core::limits::COLLECT_HOLD_MS_MAX;
use phalanx_messages::collect::{DataReport, MASTER, SyncReply, SyncRequest};

/// Time between two checks of the generation, which also bounds the time to stop.
const CHECK: Duration = Duration::from_millis(50);

/// The service, called directly.
#[derive(Clone, Debug)]
pub struct Local {
    collect: Arc<Collect>,
    stop: Arc<AtomicBool>,
}

impl Local {
    /// Creates a service whose waits end early when `stop` is set.
    pub fn new(collect: Arc<Collect>, stop: Arc<AtomicBool>) -> Local {
        Local { collect, stop }
    }
}

fn refused(refusal: Failure) -> ServiceError {
    match refusal {
        Failure::NotFound(text) => ServiceError::NotFound(text),
        Failure::Unavailable(text) => ServiceError::Unreachable(text),
        Failure::BadRequest(text) | Failure::Conflict(text) => ServiceError::Refused(text),
    }
}

impl Service for Local {
    fn sync(&mut self, request: &SyncRequest) -> Result<SyncReply, ServiceError> {
        let begun = Now::read();
        let (_, lost) = self.collect.begin_sync(MASTER, request, begun).map_err(refused)?;
        let wait_ms = request.wait_ms.min(COLLECT_HOLD_MS_MAX);
        while self.collect.generation() == request.generation
            && Now::read().since(begun.mono_ms) < wait_ms
            && !self.stop.load(Ordering::Relaxed)
        {
            std::thread::sleep(CHECK);
        }
        Ok(self.collect.end_sync(MASTER, request.generation, lost, Now::read()))
    }

    fn read(&mut self, name: &str, node: Option<&str>) -> Result<DataReport, ServiceError> {
        let nodes = node.map(|node| vec![node.to_owned()]);
        self.collect.data(name, nodes.as_deref(), Now::read()).map_err(refused)
    }
}
