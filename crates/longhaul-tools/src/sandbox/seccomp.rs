//! seccomp: system calls that no command needs and that reach beyond it.
//!
//! Owns the list and its filters. Refuses by an error, not by a signal: a program that only tries goes on without. What
//! is not on the list is allowed; the boundary is what the mounts and namespaces leave, and this makes the kernel behind
//! it smaller.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Refused whatever its arguments are.
const REFUSED: &[i64] = &[
    // Other processes' memory and state.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    // Large parts of the kernel with a history.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_fanotify_init,
    // The machine itself.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    libc::SYS_kexec_file_load,
];

/// Typing into a terminal (TIOCSTI), and talking to the console (TIOCLINUX, TIOCCONS): the same on all three machines.
const TERMINAL_REQUESTS: &[u64] = &[0x5412, 0x541C, 0x541D];

/// Every flag of `clone` that makes a namespace.
const NAMESPACE_FLAGS: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// The second set of numbers that a kernel with the x32 ABI answers to.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;
#[cfg(target_arch = "riscv64")]
const ARCH: TargetArch = TargetArch::riscv64;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

pub(super) fn apply(internet: bool) -> Result<(), String> {
    for filter in filters(internet).map_err(|error| error.to_string())? {
        seccompiler::apply_filter(&filter).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Two, because a filter has one answer: "not permitted", and "no such call" for the one whose flags are out of a
/// filter's sight; libraries then use the older `clone`.
fn filters(internet: bool) -> Result<[BpfProgram; 2], BackendError> {
    let refused = compiled(refused(internet)?, libc::EPERM)?;
    let unknown = compiled(with_second_numbers([(libc::SYS_clone3, Vec::new())].into()), libc::ENOSYS)?;
    Ok([refused, unknown])
}

fn refused(internet: bool) -> Result<Rules, BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let flags = NAMESPACE_FLAGS.iter().map(|flag| {
        let flag = u64::from(flag.cast_unsigned());
        rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)])
    });
    rules.insert(libc::SYS_clone, flags.collect::<Result<_, _>>()?);
    let requests = TERMINAL_REQUESTS.iter().map(|request| rule(&[(1, SeccompCmpOp::Eq, *request)]));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_socket, vec![other_families(internet)?]);
    Ok(with_second_numbers(rules))
}

/// Any family of sockets but these. Those left out reach past a network namespace (VSOCK) or deep into the kernel.
fn other_families(internet: bool) -> Result<SeccompRule, BackendError> {
    let local = [libc::AF_UNIX];
    let all = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let allowed: &[i32] = if internet { &all } else { &local };
    let conditions: Vec<_> =
        allowed.iter().map(|family| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()))).collect();
    rule(&conditions)
}

/// All conditions must hold. The kernel looks at the lower half of these arguments only, and so do we.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions.iter().map(|(argument, operator, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

#[cfg(target_arch = "x86_64")]
fn with_second_numbers(mut rules: Rules) -> Rules {
    /// Calls that have a number of their own there.
    const OWN: &[(i64, i64)] = &[
        (libc::SYS_ioctl, 514),
        (libc::SYS_ptrace, 521),
        (libc::SYS_kexec_load, 528),
        (libc::SYS_process_vm_readv, 539),
        (libc::SYS_process_vm_writev, 540),
    ];
    let own = OWN.iter().filter_map(|(call, number)| Some((number | X32, rules.get(call)?.clone())));
    let same = rules.iter().map(|(call, rule)| (call | X32, rule.clone()));
    let more: Vec<_> = same.chain(own).collect();
    rules.extend(more);
    rules
}

#[cfg(not(target_arch = "x86_64"))]
fn with_second_numbers(rules: Rules) -> Rules {
    rules
}

fn compiled(rules: Rules, errno: i32) -> Result<BpfProgram, BackendError> {
    let answer = SeccompAction::Errno(errno.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, answer, ARCH)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A38: the filters can be made, and a kernel takes programs of this length.
    #[test]
    fn the_filters_compile() {
        for internet in [true, false] {
            let [refused, unknown] = filters(internet).unwrap();
            assert!(refused.len() < 4096 && unknown.len() < 64, "{} {}", refused.len(), unknown.len());
        }
    }
}
