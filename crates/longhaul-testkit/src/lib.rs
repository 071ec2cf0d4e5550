//! Test doubles and suites shared by longhaul's tests.

pub mod crash;
pub mod fake_clock;
pub mod faulty_disk;
pub mod scripts;
pub mod store_contract;
