//! Landlock: the kernel's own list of what may be read and written, beneath whatever mounts say.
//!
//! Owns the rules. On a kernel without it nothing is put on, which the self-probe notices. Refuses to weaken a rule:
//! only rights the kernel does not know are left out.

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    Scope, path_beneath_rules,
};

use super::orders::Orders;

/// The newest set of rights we know; an older kernel leaves out what it has not.
const KNOWN: ABI = ABI::V7;

pub(super) fn apply(orders: &Orders) -> Result<(), String> {
    rules(orders).map_err(|error| error.to_string())
}

fn rules(orders: &Orders) -> Result<(), RulesetError> {
    let (read, all) = (AccessFs::from_read(KNOWN), AccessFs::from_all(KNOWN));
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        // Signals and abstract sockets stay among the command's own processes.
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(&orders.read, read))?
        .add_rules(path_beneath_rules(&orders.write, all))?
        .restrict_self()?;
    Ok(())
}
