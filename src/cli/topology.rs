// SPDX-License-Identifier: GPL-3.0-or-later
//! `--topology FILE`: a topology.conf, or what `scontrol show topology` printed.

use std::io::Read;
use std::path::Path;

use crate::exit::Failure;
use crate::slurm_conf::SlurmConf;
use phalanx_core::limits::TOPOLOGY_BYTES_MAX;
use phalanx_core::problem::InputError;
use phalanx_core::slurm_conf::{Form, lines};
use phalanx_core::snapshot::Table;
use phalanx_core::topology::{self, Topology, TopologyError};
use phalanx_sim::input;

/// A file that is given as the topology.
pub struct TopologyFile {
    name: String,
    text: String,
}

impl TopologyFile {
    /// Reads the file, if one is given.
    pub fn given(path: Option<&Path>) -> Result<Option<Self>, Failure> {
        path.map(Self::open).transpose()
    }

    fn open(path: &Path) -> Result<Self, Failure> {
        let name = input::shown(path);
        let mut text = String::new();
        let most = TOPOLOGY_BYTES_MAX as u64;
        let read = input::open(path)?.take(most + 1).read_to_string(&mut text);
        read.map_err(|error| InputError::new(&name, error))?;
        if text.len() > TOPOLOGY_BYTES_MAX {
            let what = format!("topology: longer than {TOPOLOGY_BYTES_MAX} bytes");
            return Err(InputError::new(&name, what).into());
        }
        if lines(&text, Form::File).iter().any(|line| line.include().is_some()) {
            let whole = SlurmConf::read(path).map_err(Failure::usage_line)?;
            text = whole.text();
        }
        Ok(Self { name, text })
    }

    /// Returns the file's nodes in its order.
    pub fn node_names(&self) -> Result<Vec<String>, Failure> {
        topology::node_names(&self.text).map_err(|error| self.failed(error))
    }

    /// Returns the topology over these nodes.
    pub fn over(&self, table: &Table) -> Result<Topology, Failure> {
        topology::parse_file(&self.text, table).map_err(|error| self.failed(error))
    }

    #[allow(clippy::needless_pass_by_value)] // for map_err
    fn failed(&self, error: TopologyError) -> Failure {
        InputError::new(&self.name, error).into()
    }
}
