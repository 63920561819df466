// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx data`: inputs of data jobs, as HDFS and block maps describe them.

mod hdfs;
mod splits;

group! {
    /// Show who reads which blocks of an input, and what HDFS says about it
    Splits(splits::Args),
    Check(hdfs::Check),
    Ls(hdfs::Ls),
}
