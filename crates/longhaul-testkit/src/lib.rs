//! Test doubles and suites shared by longhaul's tests.
