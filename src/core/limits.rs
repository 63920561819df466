// SPDX-License-Identifier: GPL-3.0-or-later
//! Every cap and bound of the product in one table, and a test of their relations.

/// Bytes of a configuration file.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the explanation that is kept with a decision.
pub const EXPLAIN_BYTES_MAX: usize = 64 * 1024;
/// Records of one transaction of the history.
pub const HISTORY_BATCH_MAX: usize = 512;
/// Records that wait for the history's thread; more are dropped.
pub const HISTORY_QUEUE_MAX: usize = 16_384;
/// Bytes of one answer of the daemon that the command line takes.
pub const REPLY_BYTES_MAX: usize = 512 << 20;
/// Most bytes of slurm.conf, and of each file that it includes, for `phalanx doctor`.
pub const SLURM_CONF_BYTES_MAX: u64 = 16 << 20;
/// Files that slurm.conf may include.
pub const SLURM_CONF_INCLUDES_MAX: usize = 64;
/// Bytes of a plugin's file that `phalanx doctor` reads.
pub const PLUGIN_BYTES_MAX: u64 = 16 << 20;
/// Nodes of one cluster (the wire format's `PHX_NODES_MAX`).
pub const NODES_MAX: usize = 131_072;
/// Switches, or blocks with their aggregates, of one topology.
pub const TOPOLOGY_DOMAINS_MAX: usize = 65_535;
/// Switches above a leaf switch; Slurm refuses more.
pub const TOPOLOGY_DEPTH_MAX: usize = 20;
/// Bytes of a topology's text (the wire format's `PHX_TOPOLOGY_BYTES_MAX`).
pub const TOPOLOGY_BYTES_MAX: usize = 4 << 20;
/// Resource dimensions of one problem: cpu, memory, each GRES type, licences.
pub const DIMENSIONS_MAX: usize = 32;
/// Jobs of one `phalanx solve` problem or one snapshot.
pub const JOBS_MAX: usize = 4_000_000;

/// Largest [`Amount`](crate::Amount) in ticks: the sum of two still
/// converts to a double without loss (below 2^53).
pub const AMOUNT_TICKS_MAX: u64 = 1 << 52;
/// Names that one hostlist expression may expand to by default.
pub const HOSTLIST_NAMES_MAX: usize = NODES_MAX;
/// Decimal digits of one number in a hostlist (Slurm's numbers are shorter).
pub const HOSTLIST_DIGITS_MAX: usize = 18;
/// Names that all hostlists of one text expand to: a node may be on several switches.
pub const TEXT_NAMES_MAX: usize = 4 * NODES_MAX;
/// Bytes of one name that a hostlist expands to.
pub const HOSTLIST_NAME_BYTES_MAX: usize = 1024;
/// Bytes of one `phalanx solve` problem.
pub const PROBLEM_BYTES_MAX: u64 = 16 << 30;

const _: () = assert!(AMOUNT_TICKS_MAX * 2 <= 1 << 53);
const _: () = assert!(NODES_MAX < u32::MAX as usize);
/// Jobs whose waiting time under `no_improvement = "hold"` is remembered.
pub const HELD_JOBS_MAX: usize = 100_000;
/// Bytes of one request body on the control socket.
pub const API_BODY_BYTES_MAX: usize = 128 << 10;
/// Bytes of the body of a request that only reads.
pub const API_READ_BODY_BYTES_MAX: usize = 4 << 10;
/// Bytes of all bodies that are taken at one time.
pub const API_BODIES_BYTES_MAX: usize = 160 << 20;
/// Bytes of all answers that were made and not read yet.
pub const API_ANSWERS_BYTES_MAX: usize = 1 << 30;
/// Most connections over TCP of agents and of users who may change things.
pub const API_CONNECTIONS_MAX: usize = 20_000;
/// Most connections to the control socket of users who may change things.
pub const API_TRUSTED_CONNECTIONS_MAX: usize = 1024;
/// Connections over TCP without a valid credential yet.
pub const API_STRANGERS_MAX: usize = 4096;
/// Connections over TCP from one address without a valid credential yet.
pub const API_ADDRESS_STRANGERS_MAX: usize = 64;
/// Clients above the bounds on connections that are told so at once.
pub const API_REFUSALS: usize = 32;
/// Connections to the control socket, or over TCP, of all users who may only read.
pub const API_LOCAL_CONNECTIONS_MAX: usize = 512;
/// Connections to the control socket, or over TCP, of one user who may only read.
pub const API_USER_CONNECTIONS_MAX: usize = 32;
/// Questions of one user who may only read that are worked on, or whose answer is not read yet.
pub const API_USER_QUESTIONS_MAX: usize = 2;
/// Questions of users with read access only that are worked on at once.
pub const API_PUBLIC_THREADS: usize = 2;
/// Questions of users with write access that are worked on at once.
pub const API_BLOCKING_THREADS: usize = 4;
/// Threads that may wait for munged at once.
pub const MUNGE_THREADS: usize = 4;
/// Notes of the link that wait for the recorder.
pub const NOTES_QUEUE_MAX: usize = 65_536;
/// Bytes that the latest decisions take in memory, by estimate.
pub const RECENT_BYTES_MAX: usize = 48 << 20;
/// Jobs whose latest decisions are kept in memory for `explain`.
pub const RECENT_JOBS_MAX: usize = 20_000;
/// Asks kept in memory for each job whose latest decisions are kept.
pub const RECENT_ASKS_MAX: usize = 8;
/// (Job class, node) pairs whose speeds are remembered; some 60 MB.
pub const LEARN_PAIRS_MAX: usize = 500_000;
/// Job classes whose speeds are remembered.
pub const LEARN_CLASSES_MAX: usize = 20_000;
/// Events that wait while the table of speeds is built anew.
pub const LEARN_EVENTS_MAX: usize = 1_000_000;
/// Ended runs whose energy Slurm's accounting is asked for at a time.
pub const ENERGY_RUNS_MAX: usize = 20_000;
/// Ended runs that wait for a poll of slurmctld; the oldest are given up.
pub const RUNS_WAITING_MAX: usize = 65_536;
/// Runs of one request of an import.
pub const IMPORT_RUNS_MAX: usize = 1000;
/// Bytes of one request of an import.
pub const IMPORT_BODY_BYTES_MAX: usize = 64 << 20;

const _: () = assert!(2 * IMPORT_BODY_BYTES_MAX <= API_BODIES_BYTES_MAX);
const _: () = assert!(API_USER_CONNECTIONS_MAX < API_LOCAL_CONNECTIONS_MAX);
/// Runs that one report lists.
pub const RUNS_LIST_MAX: u32 = 100_000;
/// Node preferences of one method.
pub const PREFERENCES_MAX: usize = 100_000;
/// Candidate sets of one node preference: each costs at most one decision more at a question.
pub const CANDIDATE_SETS_MAX: usize = 4;
/// Different sets of eligible nodes in one plan of gangs: bits of a word.
pub const GANG_PLACES_MAX: usize = 64;
/// Waiting tasks of one array in one plan of gangs.
pub const GANG_ARRAY_TASKS_MAX: u64 = 64;
/// Longest wait of an array for the first plan that has it, milliseconds, where its
/// tasks may wait at all.
pub const FIRST_PLAN_WAIT_MS: u64 = 3000;
/// Arrays in one plan of bags.
pub const BAG_ARRAYS_MAX: usize = 2000;
/// Arrays up to which every plan of bags searches from the result of each mode.
pub const BAG_REVISED_ARRAYS_MAX: usize = 16;
/// Different sets of eligible nodes in one plan of bags.
pub const BAG_PLACES_MAX: usize = 256;
/// Nodes copied from the mirror while its lock is held once.
pub const COPY_NODES: usize = 512;
/// Nodes of the jobs that are copied from the mirror while its lock is held once.
pub const COPY_JOB_NODES: usize = 256;

/// Tasks of one bag problem, and machines of one type: up to 2^53 every integer
/// is exactly a double, so that counts and loads can be mixed without rounding.
pub const BAG_TASKS_MAX: u64 = 1 << 53;
/// Arithmetic steps of the bag planner's offline programme, about 4 s; then it
/// gives a bound instead of the optimum.
pub const BAG_LP_STEPS_MAX: usize = 4_000_000_000;
/// Values that the bag planner's local search may compute when bags are final on
/// arrival.
pub const BAG_TRIALS_COMMITTED_MAX: usize = 100_000;
/// Values that the bag planner's local search may compute when arrivals may move waiting tasks.
pub const BAG_TRIALS_REVISED_MAX: usize = 4_000_000;
/// Units of work of one `share` problem: up to 2^53 every integer is exactly a double.
pub const SHARE_LOAD_MAX: u64 = 1 << 53;
/// Cores of all hosts of one problem of the method for data jobs.
pub const BISECT_CORES_MAX: usize = 1 << 24;
/// Probed makespans of one bisection; doubling ends far earlier.
pub const BISECT_PROBES_MAX: usize = 2_200;
/// Migrations and exchanges of blocks within one job.
pub const BISECT_MIGRATIONS_MAX: usize = 10_000;
/// Work (cores and blocks visited) of mode `seed` of data jobs; about ten seconds.
pub const BISECT_SEED_STEPS_MAX: u64 = 4_000_000_000;
/// Units of work of further probes and orders in mode `best` of data jobs; about three seconds.
pub const BISECT_BEST_UNITS: u64 = 600_000_000;
/// Orders of jobs that mode `best` tries on large problems.
pub const BISECT_ORDERS: usize = 60;
/// Assignments of blocks that one job may need in one probe of mode `best`.
pub const BISECT_ASSIGNMENTS_MAX: usize = 12;
/// Most migrations that refine one distribution of blocks in mode `best` of data jobs.
pub const BISECT_REFINE_MAX: usize = 200;
/// Jobs times hosts up to which mode `best` anneals.
pub const BISECT_ANNEAL_CELLS_MAX: usize = 2_000;
/// Work of annealing; some five seconds.
pub const BISECT_ANNEAL_UNITS: u64 = 6_000_000_000;
/// Most runs of annealing; each starts from the best result of the earlier runs.
pub const BISECT_ANNEAL_RUNS: usize = 12;
/// Steps of one run of annealing.
pub const BISECT_ANNEAL_STEPS: usize = 200_000;
/// Durations of jobs that annealing remembers at most.
pub const BISECT_DURATIONS_MAX: usize = 1_000_000;
/// Jobs of the data jobs' mode `exact`.
pub const BISECT_EXACT_JOBS_MAX: usize = 5;
/// Cores of all hosts in mode `exact`.
pub const BISECT_EXACT_CORES_MAX: usize = 8;
/// Blocks of one job in mode `exact`.
pub const BISECT_EXACT_BLOCKS_MAX: usize = 10;
/// Work of mode `exact`; some ten seconds.
pub const BISECT_EXACT_UNITS: u64 = 1_000_000_000;
/// Bytes that a collector may print.
pub const SLOT_OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Last bytes that are kept of a collector's standard error.
pub const SLOT_STDERR_BYTES_MAX: usize = 2 << 10;
/// Processes and threads of the user that collectors run as, root excepted.
pub const SLOT_PROCESSES_MAX: u64 = 512;
/// Open files of one process of a collector.
pub const SLOT_FILES_MAX: u64 = 1024;
/// Bytes of one file that a collector writes.
pub const SLOT_FILE_BYTES_MAX: u64 = 16 << 20;
/// Time between two checks whether a program has ended, milliseconds, where the kernel reports no
/// end (before Linux 5.3).
pub const SLOT_EXIT_CHECK_MS: u64 = 50;

/// Jobs whose place in the order of starts is changed at one time; the plugin
/// takes twice as many.
pub const ORDER_DELTAS_MAX: usize = 4096;
/// Most pairs of a job and a job that it is put in front of, in one group of jobs.
pub const ORDER_PASSES_MAX: usize = 2_000_000;
/// Attempts to arrange one group before everybody stays where they are.
pub const ORDER_TRIES_MAX: usize = 50;
/// Pending jobs of one report of the queue.
pub const ORDER_QUEUE_MAX: usize = 1_000_000;
/// Most bytes of a file in which the daemon keeps state, such as block maps.
pub const STATE_FILE_BYTES_MAX: u64 = 64 << 20;

/// Bytes of the name of a datum or a node of the data service.
pub const COLLECT_NAME_BYTES_MAX: usize = 63;
/// Bytes of a registered command's path.
pub const COLLECT_PATH_BYTES_MAX: usize = 1024;
/// Arguments of a registered command.
pub const COLLECT_ARGS_MAX: usize = 64;
/// Bytes of all arguments of a registered command together.
pub const COLLECT_ARGS_BYTES_MAX: usize = 8192;
/// Bytes of a registration's node list.
pub const COLLECT_NODES_BYTES_MAX: usize = 64 << 10;
/// Inputs of one processor.
pub const COLLECT_INPUTS_MAX: usize = 64;
/// Shortest and longest period of a registration, milliseconds.
pub const COLLECT_EVERY_MS: (u64, u64) = (100, 86_400_000);
/// Shortest and longest time limit of one run, milliseconds.
pub const COLLECT_TIMEOUT_MS: (u64, u64) = (100, 3_600_000);
/// Bytes of a value that is text: all that a program may print.
pub const COLLECT_TEXT_BYTES_MAX: usize = SLOT_OUTPUT_BYTES_MAX;
/// Bytes of a text that goes into the history of past values.
pub const COLLECT_PAST_TEXT_BYTES_MAX: usize = 1024;
/// Bytes of all latest values that are text.
pub const COLLECT_TEXTS_BYTES_MAX: usize = 256 << 20;
/// Registrations of the data service.
pub const COLLECT_REGISTRATIONS_MAX: usize = 4096;
/// Latest values kept in memory, over all names and nodes.
pub const COLLECT_VALUES_MAX: usize = 2_000_000;
/// Values of one request.
pub const COLLECT_BATCH_MAX: usize = 50_000;
/// Bytes of a request with many values.
pub const COLLECT_BODY_BYTES_MAX: usize = 8 << 20;
/// Longest time that the answer to an agent is held, milliseconds.
pub const COLLECT_HOLD_MS_MAX: u64 = 60_000;
/// Bytes of an agent's texts (standard error, reasons) that are kept.
pub const COLLECT_REPORT_BYTES_MAX: usize = 1024;
/// Past values of one answer.
pub const COLLECT_POINTS_MAX: usize = 10_000;
/// Instances that one registration's report lists.
pub const COLLECT_INSTANCES_LISTED: usize = 1000;

const _: () = assert!(COLLECT_BATCH_MAX <= COLLECT_VALUES_MAX);
/// Bytes of one answer of a NameNode (Hadoop's own client takes as much).
pub const HDFS_FRAME_BYTES_MAX: usize = 128 << 20;
/// Blocks asked for at once: an answer without bound can end a NameNode.
pub const HDFS_PAGE_BLOCKS: u64 = 1000;
/// Files of one job's input.
pub const HDFS_FILES_MAX: usize = 100_000;
/// Blocks of one job's input.
pub const HDFS_BLOCKS_MAX: usize = 1_000_000;
/// Directories that one input is searched in, and patterns that braces may expand to.
pub const HDFS_DIRECTORIES_MAX: usize = 10_000;
/// Bytes of one Hadoop configuration file, inclusions counted.
pub const HDFS_CONF_BYTES_MAX: u64 = 8 << 20;
/// Inputs whose blocks are remembered by one thread, and their bytes by estimate.
pub const HDFS_CACHE_MAX: usize = 1000;
/// See [`HDFS_CACHE_MAX`].
pub const HDFS_CACHE_BYTES_MAX: usize = DATA_INPUT_BYTES_MAX;
/// Bytes of a Prometheus answer.
pub const PROMETHEUS_BYTES_MAX: u64 = 32 << 20;
/// Programs that one agent runs at once.
pub const AGENT_RUNS_MAX: usize = 32;
/// Values that an agent keeps while the data service does not take them; the
/// oldest make room.
pub const AGENT_QUEUE_MAX: usize = 4096;
/// Values of one sync.
pub const AGENT_BATCH_MAX: usize = 1024;
/// Bytes of the texts of one sync: a request stays below [`COLLECT_BODY_BYTES_MAX`].
pub const AGENT_BATCH_TEXT_BYTES_MAX: usize = 2 << 20;
/// Longest time that an agent lets one sync be held, milliseconds.
pub const AGENT_WAIT_MS_MAX: u64 = 30_000;
/// Longest pause of an agent that cannot reach the data service, milliseconds.
pub const AGENT_RETRY_MS_MAX: u64 = 15_000;
/// Longest extra pause of a collector that fails, milliseconds.
pub const COLLECTOR_BACKOFF_MS_MAX: u64 = 300_000;
/// Bytes of one answer of the data service.
pub const AGENT_REPLY_BYTES_MAX: usize = 32 << 20;

// A byte of a text takes at most two in JSON, as texts have no control characters but tabs and ends
// of lines; one value may go over the bound.
const _: () = assert!(
    AGENT_BATCH_MAX * 1024 + 2 * (AGENT_BATCH_TEXT_BYTES_MAX + COLLECT_TEXT_BYTES_MAX)
        <= COLLECT_BODY_BYTES_MAX
);
const _: () = assert!(AGENT_WAIT_MS_MAX <= COLLECT_HOLD_MS_MAX);
/// Bytes of one line of a trace.
pub const TRACE_LINE_BYTES_MAX: u64 = 1 << 20;
/// Jobs of one trace; a job takes about 60 bytes while it is simulated.
pub const TRACE_JOBS_MAX: usize = 32_000_000;
/// Ended runs of a user (old ones count less) from which on predicted runtimes of
/// the user's jobs decide.
pub const RUNTIME_RUNS_MIN: f64 = 2.5;
/// Streams (users, users by class) whose runtimes are remembered.
pub const RUNTIME_STREAMS_MAX: usize = 1_000_000;
/// Streams of one user whose runtimes are remembered.
pub const RUNTIME_USER_STREAMS_MAX: u32 = 10_000;

/// URIs of one `hdfs-input=`, and names of one `data-input=`.
pub const DATA_URIS_MAX: usize = 1000;
/// Bytes of the name of a dataset.
pub const DATASET_NAME_BYTES_MAX: usize = 255;
/// Bytes of the file that `data_jobs.locations` names.
pub const LOCATIONS_BYTES_MAX: u64 = 32 << 20;
/// Splits of one input.
pub const SPLITS_MAX: usize = 1_000_000;
/// Waiting tasks of an array that are planned one by one.
pub const DATA_ELEMENTS_MAX: usize = 64;
/// Work (blocks and hosts visited) of one plan of data jobs of given shape.
pub const BISECT_RIGID_UNITS: u64 = 400_000_000;
/// Bytes of the blocks of one job's input, by estimate: a million blocks of three replicas.
pub const DATA_INPUT_BYTES_MAX: usize = 128 << 20;
/// Bytes of all inputs that are kept, by estimate.
pub const DATA_INPUTS_BYTES_MAX: usize = 512 << 20;
/// Inputs of data-parallel jobs that are kept, and that wait to be looked up.
pub const DATA_INPUTS_MAX: usize = 10_000;
/// Inputs of one user that wait to be looked up.
pub const DATA_INPUTS_USER_MAX: usize = 500;
/// Threads that look inputs up.
pub const DATA_LOOKUP_THREADS: usize = 3;
/// Inputs of one user that are looked up at once.
pub const DATA_LOOKUPS_USER: usize = 2;

const _: () = assert!(DATA_LOOKUPS_USER < DATA_LOOKUP_THREADS);
/// Block maps that are kept for jobs that run.
pub const DATA_MAPS_MAX: usize = 1000;
/// Most runs of one class to which a core speed is fitted.
pub const DATA_SAMPLES_MAX: usize = 1000;

/// Classes of nodes on which one job class's speed is kept.
pub const DATA_NODE_CLASSES_MAX: usize = 1024;

/// Events that wait for the writer of a recording; beyond it the recording has a gap.
pub const RECORDING_QUEUE_MAX: usize = 16_384;
/// Text of a recording that is compressed and checked as one.
pub const RECORD_FRAME_BYTES: usize = 256 << 10;
/// Most text that a frame may have: a picture of the largest queue.
pub const RECORD_FRAME_BYTES_MAX: usize = 1 << 30;
/// Differences that a replay lists at most.
pub const REPLAY_LIST_MAX: usize = 1000;
