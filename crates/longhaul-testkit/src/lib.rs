//! Test doubles and suites shared by longhaul's tests.

pub mod faulty_disk;
pub mod store_contract;
