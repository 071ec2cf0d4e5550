//! One file for each command: what may be typed, and what is done about it.

pub mod approvals;
pub mod ask;
pub mod bench;
pub mod checkpoints;
pub mod completions;
pub mod config;
pub mod create;
pub mod demo;
pub mod doctor;
pub mod drive;
pub mod events;
pub mod export;
pub mod import;
pub mod init;
pub mod list;
pub mod logs;
pub mod replay;
pub mod result;
pub mod rm;
pub mod run;
pub mod show;
pub mod start;
pub mod steps;
pub mod store;
pub mod tools;
pub mod tree;
