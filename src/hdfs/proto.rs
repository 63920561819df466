// SPDX-License-Identifier: GPL-3.0-or-later
//! The messages of Hadoop RPC version 9 and of `ClientProtocol` that are used here, with the
//! fields that are used here; the wire is the same from Hadoop 2.2 to 3.5.
#![allow(missing_docs)] // Named as in Hadoop's RpcHeader, IpcConnectionContext, hdfs .proto files.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct RpcRequestHeader {
    /// Kind of the request: 2 for protocol buffers.
    #[prost(int32, required, tag = "1")]
    pub rpc_kind: i32,
    /// Operation: 0 for the whole request.
    #[prost(int32, required, tag = "2")]
    pub rpc_op: i32,
    #[prost(sint32, required, tag = "3")]
    pub call_id: i32,
    #[prost(bytes = "vec", required, tag = "4")]
    pub client_id: Vec<u8>,
    #[prost(sint32, tag = "5")]
    pub retry_count: i32,
    #[prost(message, optional, tag = "7")]
    pub caller_context: Option<CallerContext>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CallerContext {
    #[prost(string, required, tag = "1")]
    pub context: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct RpcResponseHeader {
    #[prost(uint32, required, tag = "1")]
    pub call_id: u32,
    /// Status: 0 success, 1 error, 2 fatal.
    #[prost(int32, required, tag = "2")]
    pub status: i32,
    #[prost(string, optional, tag = "4")]
    pub exception: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub message: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UserInformation {
    #[prost(string, optional, tag = "1")]
    pub effective_user: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct IpcConnectionContext {
    #[prost(message, optional, tag = "2")]
    pub user: Option<UserInformation>,
    #[prost(string, optional, tag = "3")]
    pub protocol: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RequestHeader {
    #[prost(string, required, tag = "1")]
    pub method: String,
    #[prost(string, required, tag = "2")]
    pub protocol: String,
    #[prost(uint64, required, tag = "3")]
    pub version: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetFileInfoRequest {
    #[prost(string, required, tag = "1")]
    pub src: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetFileInfoResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<FileStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetListingRequest {
    #[prost(string, required, tag = "1")]
    pub src: String,
    #[prost(bytes = "vec", required, tag = "2")]
    pub start_after: Vec<u8>,
    #[prost(bool, required, tag = "3")]
    pub need_location: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetListingResponse {
    #[prost(message, optional, tag = "1")]
    pub listing: Option<DirectoryListing>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DirectoryListing {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<FileStatus>,
    #[prost(uint32, required, tag = "2")]
    pub remaining: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetBlockLocationsRequest {
    #[prost(string, required, tag = "1")]
    pub src: String,
    #[prost(uint64, required, tag = "2")]
    pub offset: u64,
    #[prost(uint64, required, tag = "3")]
    pub length: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetBlockLocationsResponse {
    #[prost(message, optional, tag = "1")]
    pub locations: Option<LocatedBlocks>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetDatanodeReportRequest {
    /// Kind of DataNodes: 1 all, 2 live.
    #[prost(int32, required, tag = "1")]
    pub kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetDatanodeReportResponse {
    #[prost(message, repeated, tag = "1")]
    pub datanodes: Vec<DatanodeInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FileStatus {
    /// Kind of entry: 1 directory, 2 file, 3 symbolic link.
    #[prost(int32, required, tag = "1")]
    pub kind: i32,
    #[prost(bytes = "vec", required, tag = "2")]
    pub path: Vec<u8>,
    #[prost(uint64, required, tag = "3")]
    pub length: u64,
    #[prost(uint64, required, tag = "7")]
    pub modified_ms: u64,
    #[prost(uint32, optional, tag = "10")]
    pub replication: Option<u32>,
    #[prost(uint64, optional, tag = "11")]
    pub block_size: Option<u64>,
    #[prost(message, optional, tag = "12")]
    pub locations: Option<LocatedBlocks>,
    #[prost(message, optional, tag = "17")]
    pub ec_policy: Option<EcPolicy>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LocatedBlocks {
    #[prost(message, repeated, tag = "2")]
    pub blocks: Vec<LocatedBlock>,
    #[prost(bool, required, tag = "3")]
    pub under_construction: bool,
    #[prost(message, optional, tag = "7")]
    pub ec_policy: Option<EcPolicy>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LocatedBlock {
    #[prost(message, optional, tag = "1")]
    pub block: Option<ExtendedBlock>,
    #[prost(uint64, required, tag = "2")]
    pub offset: u64,
    #[prost(message, repeated, tag = "3")]
    pub locations: Vec<DatanodeInfo>,
    #[prost(bool, required, tag = "4")]
    pub corrupt: bool,
    #[prost(bool, repeated, tag = "6")]
    pub cached: Vec<bool>,
    #[prost(int32, repeated, packed = "false", tag = "7")]
    pub storage_types: Vec<i32>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub block_indices: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ExtendedBlock {
    #[prost(uint64, optional, tag = "4")]
    pub bytes: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DatanodeInfo {
    #[prost(message, optional, tag = "1")]
    pub id: Option<DatanodeId>,
    #[prost(string, optional, tag = "8")]
    pub rack: Option<String>,
    /// State: 0 normal, 1 decommissioning, 2 decommissioned, 3 and 4 maintenance.
    #[prost(int32, optional, tag = "10")]
    pub admin_state: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DatanodeId {
    #[prost(string, required, tag = "1")]
    pub ip: String,
    #[prost(string, required, tag = "2")]
    pub host: String,
    #[prost(uint32, required, tag = "4")]
    pub port: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct EcPolicy {
    #[prost(message, optional, tag = "2")]
    pub schema: Option<EcSchema>,
    #[prost(uint32, optional, tag = "3")]
    pub cell: Option<u32>,
    /// Id of the policy, the only field that is sent for built-in policies.
    #[prost(uint32, required, tag = "4")]
    pub id: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct EcSchema {
    #[prost(uint32, required, tag = "2")]
    pub data_units: u32,
}
