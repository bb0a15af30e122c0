//! `sgpu-ckpt mark` in containers, on real clusters.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use harness::{Builder, Cluster, JobId, Output, Plugins, Release, User};
use suites::on_each_spank_release;
use suites::sealed::Sealed;

const PLUGSTACK: &str = "optional spank_sgpu_ckpt.so\n";
/// What each container has of the node.
const BASE: [&str; 4] = ["usr", "etc", "home", "dev"];
const SIGNAL: &str = "--checkpoint-signal=USR1@30";

/// What daemons log when a job is ended from outside.
const SRUN_IS_GONE: &str = "Failed to send MESSAGE_TASK_EXIT|Zero Bytes were transmitted|\
                            Unexpected missing socket error";

fn builder(release: Release) -> Builder {
    Cluster::builder(release)
        .plugins(Plugins::Ours)
        .etc_slurm("plugstack.conf", PLUGSTACK)
        .etc_slurm(
            "sgpu.toml",
            "[checkpoint]\nmark_every_minimum = 1\ncontainer_marks = true\n",
        )
        .slurm_conf_extra("KillWait=5")
}

fn with_proc(cluster: &Cluster, release: Release) -> Sealed<'_> {
    // slurmd's folder has the batch scripts.
    Sealed::new(
        cluster,
        release,
        PLUGSTACK,
        &[&BASE[..], &["proc", "var"]].concat(),
    )
}

/// A program of a user's, on the first node.
fn run(cluster: &Cluster, user: User, program: &str, words: &[&str]) -> Output {
    let command = cluster.command(program).args(words).user(user);
    command.on(cluster.node(1)).run().unwrap()
}

/// A file of alice's home, on the host.
fn home(cluster: &Cluster, name: &str) -> PathBuf {
    let path = format!("/home/alice/{name}");
    cluster.path(cluster.controller(), &path).unwrap()
}

/// Waits until a task has written a file of alice's home, with a line's end.
fn wait_file(cluster: &Cluster, name: &str) -> String {
    cluster
        .wait_until(name, Duration::from_secs(60), || {
            let text = fs::read_to_string(home(cluster, name)).unwrap_or_default();
            if text.ends_with('\n') {
                Ok(text)
            } else {
                Err(text)
            }
        })
        .unwrap()
}

fn comment(cluster: &Cluster, job: &str) -> String {
    let said = run(
        cluster,
        User::Alice,
        "squeue",
        &["-h", "-j", job, "-o", "%k"],
    );
    said.stdout.trim_end().to_owned()
}

/// The cluster's processes with this in their command lines.
fn processes(cluster: &Cluster, command: &str) -> Vec<i32> {
    let all = cluster.processes();
    let those = all.iter().filter(|process| !process.zombie);
    those
        .filter(|process| process.command.contains(command))
        .map(|process| process.host_pid)
        .collect()
}

fn proc_file(pid: i32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap()
}

/// What a job's first task says in a container: its marks by all ways.
const TASK: &str = r#"
[ $SLURM_PROCID = 0 ] || { echo "other ${SGPU_CKPT_MARKS-unset}"; exit; }
ls /opt /run 2>/dev/null
mark=/tmp/sgpu-ckpt
$mark mark; echo "code $?"
$mark mark; echo "code $?"
sleep 1.1
python3 -c 'import subprocess; print("code", subprocess.call(["/tmp/sgpu-ckpt", "mark", "--every=1"], close_fds=True))'
sleep 1.1
(exec 0<&- 2>&- 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; $mark mark --every 1; echo "code $?")
$mark mark --every 0 --quiet; echo "code $?"
SLURM_PROCID=3 $mark mark; echo "code $?"
env -u SGPU_CKPT_MARKS $mark mark >/dev/null 2>&1; echo "code $?"
SGPU_CKPT_MARKS=@00000 $mark mark 2>&1 | grep -o '@00000: .*refused'
"#;

#[test]
fn a_task_in_a_container_marks() {
    on_each_spank_release(|release| {
        let cluster = builder(release).start().unwrap();
        let sealed = with_proc(&cluster, release);
        fs::write(home(&cluster, "task.sh"), TASK).unwrap();
        let task = "sh task.sh > out.$SLURM_PROCID 2>&1; echo $SGPU_CKPT_MARKS > place.$SLURM_PROCID; \
                    until [ -e stop ]; do sleep 0.1; done";
        let mut srun = cluster
            .command("srun")
            .args([SIGNAL, "-n2", "-J", "boxed", "--comment=run 5"])
            .args(["sh", "-c", task])
            .user(User::Alice)
            .env("SGPU_CKPT_MARKS", "@stale")
            .spawn()
            .unwrap();
        let place = wait_file(&cluster, "place.0");
        wait_file(&cluster, "place.1");
        let said = wait_file(&cluster, "out.0");
        let lines: Vec<&str> = said.lines().collect();
        let id = suites::jobs::wait_running(&cluster, "boxed");
        assert!(
            lines[0].starts_with(&format!("job {id}: checkpoint marked at ")),
            "{said}"
        );
        assert!(lines[2].contains("young enough"), "{said}");
        for line in [4, 6] {
            assert!(lines[line].contains("checkpoint marked at"), "{said}");
        }
        assert!(lines[9].contains("leaves the mark to task 0"), "{said}");
        let codes: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("code "))
            .collect();
        assert_eq!(codes, ["0", "0", "0", "0", "0", "0", "1"], "{said}");
        assert!(lines.last().unwrap().ends_with("refused"), "{said}");
        assert_eq!(wait_file(&cluster, "out.1"), "other unset\n");
        let comment = comment(&cluster, &id.to_string());
        let time = comment.strip_prefix("run 5 sgpu:ckpt=").unwrap();
        assert!(time.parse::<u64>().unwrap() > 1_700_000_000);
        look_at_the_process(&cluster);
        strangers_are_refused(&cluster, place.trim_end());
        fs::write(home(&cluster, "stop"), "").unwrap();
        assert_eq!(srun.wait().unwrap().code(), Some(0));
        assert!(processes(&cluster, "sgpu-ckpt serve").is_empty());
        sealed.open();
        cluster.stop().unwrap();
    });
}

/// One process, the user's alone, where the task is, and nobody's child there.
fn look_at_the_process(cluster: &Cluster) {
    let served = processes(cluster, "sgpu-ckpt serve");
    let [serve] = served[..] else {
        panic!("{served:?}")
    };
    let tasks = processes(cluster, "sh -c sh task.sh");
    let task = tasks
        .into_iter()
        .find(|pid| proc_file(*pid, "environ").contains("\0SLURM_PROCID=0\0"))
        .unwrap();
    assert_eq!(proc_file(serve, "cgroup"), proc_file(task, "cgroup"));
    let (own, tasks) = (proc_file(serve, "status"), proc_file(task, "status"));
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace()
            .skip(1)
            .collect::<Vec<_>>()
            .join(" ")
    };
    for name in ["Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:"] {
        assert_eq!(field(&own, name), field(&tasks, name), "{name}");
    }
    assert_eq!(field(&own, "Uid:"), "1000 1000 1000 1000");
    let all = cluster.processes();
    let process = all.iter().find(|one| one.host_pid == serve).unwrap();
    let parent = all.iter().find(|one| one.host_pid == process.parent);
    assert!(
        parent.is_none_or(|parent| !parent.command.contains("sgpu-sigrelay")),
        "{parent:?}"
    );
    // What is sent to a whole step does not end it.
    for signal in ["-TERM", "-USR1", "-HUP", "-INT"] {
        let pid = process.pid.to_string();
        run(cluster, User::Root, "kill", &[signal, &pid])
            .ok()
            .unwrap();
    }
    // Standard ones, and the copy of the listening socket.
    let open = fs::read_dir(format!("/proc/{serve}/fd")).unwrap().count();
    assert_eq!(open, 4);
    let environ = proc_file(serve, "environ");
    let names: Vec<&str> = environ
        .split_terminator('\0')
        .map(|word| word.split('=').next().unwrap())
        .filter(|name| *name != "SLURM_CONF")
        .collect();
    assert_eq!(
        names,
        ["PATH", "SLURM_JOB_ID", "SLURM_PROCID", "SLURMD_NODENAME"]
    );
}

/// Another user's question has no answer, and another user's socket no question.
fn strangers_are_refused(cluster: &Cluster, place: &str) {
    let ask = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(20)\ns.connect(chr(0) + '{}')\n\
         try: s.send(b'mark every=600\\n'); print(s.recv(100))\n\
         except (BrokenPipeError, ConnectionResetError): print(b'')",
        place.strip_prefix('@').unwrap()
    );
    let said = |user| run(cluster, user, "python3", &["-c", &ask]).ok().unwrap();
    assert_eq!(said(User::Bob).stdout, "b''\n");
    assert!(said(User::Alice).stdout.starts_with("b'0 job "));
    // As some containers have it: in a user namespace, where he is root.
    let mapped = cluster
        .command("unshare")
        .args(["-r", "/opt/sgpu/plugins/sgpu-ckpt", "mark"])
        .env("SGPU_CKPT_MARKS", place)
        .user(User::Alice)
        .on(cluster.node(1))
        .run()
        .unwrap()
        .ok()
        .unwrap();
    assert!(mapped.stdout.contains("young enough"), "{mapped}");
    let listen = "import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('')\ns.listen(5)\n\
                  open('/tmp/place', 'w').write('@' + s.getsockname()[1:].decode() + '\\n')\n\
                  s.settimeout(20)\nc = s.accept()[0]\nprint(c.recv(100))";
    let node = cluster.node(1);
    let mut bob = cluster
        .command("python3")
        .args(["-c", listen])
        .user(User::Bob)
        .on(node)
        .spawn()
        .unwrap();
    let place = cluster.path(node, "/tmp/place").unwrap();
    let place = cluster
        .wait_until("bob's socket", Duration::from_secs(20), || {
            let text = fs::read_to_string(&place).unwrap_or_default();
            text.strip_suffix('\n').map(str::to_owned).ok_or(text)
        })
        .unwrap();
    let asked = cluster
        .command("/opt/sgpu/plugins/sgpu-ckpt")
        .args(["mark"])
        .env("SGPU_CKPT_MARKS", &place)
        .user(User::Alice)
        .on(node)
        .run()
        .unwrap();
    assert_eq!(asked.status.code(), Some(3), "{asked}");
    assert!(asked.stderr.contains("another user's"), "{asked}");
    assert!(bob.wait().unwrap().success());
}

#[test]
fn without_a_container_nothing_is_left() {
    on_each_spank_release(|release| {
        let cluster = builder(release).start().unwrap();
        let mut srun = cluster
            .command("srun")
            .args([SIGNAL, "sh", "-c"])
            .args(["echo ${SGPU_CKPT_MARKS-unset} > place; until [ -e stop ]; do sleep 0.1; done"])
            .user(User::Alice)
            .env("SGPU_CKPT_MARKS", "@stale")
            .spawn()
            .unwrap();
        assert_eq!(wait_file(&cluster, "place"), "unset\n");
        assert!(processes(&cluster, "sgpu-ckpt serve").is_empty());
        // The step's own alone; the waiter had its name.
        let names = cluster.processes();
        let stepds = names
            .iter()
            .filter(|process| process.name.starts_with("slurmstepd"));
        let commands: Vec<&str> = stepds.map(|process| process.command.as_str()).collect();
        let of_the_step = commands
            .iter()
            .filter(|command| command.contains(".0]"))
            .count();
        assert_eq!(of_the_step, 1, "{commands:?}");
        fs::write(home(&cluster, "stop"), "").unwrap();
        assert_eq!(srun.wait().unwrap().code(), Some(0));
        cluster.stop().unwrap();
    });
}

#[test]
fn a_step_ends_with_its_task() {
    on_each_spank_release(|release| {
        let cluster = builder(release)
            .allow_log(SRUN_IS_GONE)
            .allow_log("error: .*task .*: (Killed|Terminated)")
            .start()
            .unwrap();
        let sealed = with_proc(&cluster, release);
        let srun = |script: &str| {
            let begun = Instant::now();
            let ended = run(&cluster, User::Alice, "srun", &[SIGNAL, "sh", "-c", script]);
            (ended.status.code(), begun.elapsed())
        };
        // Before it serves, while it serves, and with a question that nobody asks to the end.
        let half = "import os, socket, time; s = socket.socket(socket.AF_UNIX); \
                    s.connect(chr(0) + os.environ[\"SGPU_CKPT_MARKS\"][1:]); s.send(b\"mark\"); time.sleep(0.5)";
        for (script, code) in [
            ("exit 3", 3),
            ("/tmp/sgpu-ckpt mark; exit 4", 4),
            (&format!("python3 -c '{half}'; exit 5"), 5),
            // The relay, which nobody survives.
            ("/tmp/sgpu-ckpt mark; kill -9 $PPID; exec sleep 100", 137),
        ] {
            let (ended, took) = srun(script);
            assert_eq!(ended, Some(code), "{script}");
            assert!(took < Duration::from_secs(10), "{script}: {took:?}");
            assert!(
                processes(&cluster, "sgpu-ckpt serve").is_empty(),
                "{script}"
            );
        }
        // A preempted or cancelled program marks in its grace.
        let script = "trap '/tmp/sgpu-ckpt mark > said; exit' USR1; echo > ready; \
                      while true; do sleep 0.1; done";
        fs::write(home(&cluster, "grace.sh"), script).unwrap();
        let mut srun = cluster
            .command("srun")
            .args([SIGNAL, "-J", "grace", "sh", "grace.sh"])
            .user(User::Alice)
            .spawn()
            .unwrap();
        wait_file(&cluster, "ready");
        let id = suites::jobs::wait_running(&cluster, "grace").to_string();
        let scancel = ["-s", "TERM", &id];
        run(&cluster, User::Alice, "scancel", &scancel)
            .ok()
            .unwrap();
        assert!(wait_file(&cluster, "said").contains("checkpoint marked"));
        srun.wait().unwrap();
        cluster.wait_nodes("idle", Duration::from_secs(30)).unwrap();
        // And one that does not.
        fs::remove_file(home(&cluster, "ready")).unwrap();
        let id = batch(
            &cluster,
            &[],
            "/tmp/sgpu-ckpt mark; echo > ready; sleep 1000",
        );
        wait_file(&cluster, "ready");
        assert_eq!(processes(&cluster, "sgpu-ckpt serve").len(), 1);
        run(&cluster, User::Alice, "scancel", &[&id.to_string()])
            .ok()
            .unwrap();
        cluster.wait_nodes("idle", Duration::from_secs(60)).unwrap();
        assert!(processes(&cluster, "sgpu-ckpt serve").is_empty());
        sealed.open();
        cluster.stop().unwrap();
    });
}

fn batch(cluster: &Cluster, options: &[&str], script: &str) -> JobId {
    let options = [&[SIGNAL], options].concat();
    cluster.sbatch_as(User::Alice, &options, script).unwrap()
}

/// The batch script itself is in the container here, which has no /proc, and the task's process no standard
/// descriptors.
#[test]
fn an_arrays_task_is_marked_alone() {
    on_each_spank_release(|release| {
        let cluster = builder(release).start().unwrap();
        let sealed = Sealed::new(
            &cluster,
            release,
            PLUGSTACK,
            &[&BASE[..], &["var"]].concat(),
        );
        sealed.plugstack("odd", PLUGSTACK);
        let script = "[ $SLURM_ARRAY_TASK_ID = 1 ] || /tmp/sgpu-ckpt mark > said 2>&1\n\
                      echo > ran.$SLURM_ARRAY_TASK_ID\nuntil [ -e stop ]; do sleep 0.1; done";
        let id = batch(&cluster, &["--array=1-2", "--comment=c"], script);
        for task in [1, 2] {
            wait_file(&cluster, &format!("ran.{task}"));
        }
        assert_eq!(comment(&cluster, &format!("{id}_1")), "c");
        let second = comment(&cluster, &format!("{id}_2"));
        let said = wait_file(&cluster, "said");
        assert!(second.starts_with("c sgpu:ckpt="), "{second}: {said}");
        fs::write(home(&cluster, "stop"), "").unwrap();
        cluster.wait_nodes("idle", Duration::from_secs(60)).unwrap();
        sealed.open();
        cluster.stop().unwrap();
    });
}

#[test]
fn a_program_that_is_not_there_costs_nothing() {
    on_each_spank_release(|release| {
        let cluster = builder(release)
            .allow_log("--checkpoint-signal: SPANK error|checkpoint-signal")
            .start()
            .unwrap();
        let sealed = with_proc(&cluster, release);
        let alone = cluster.opt().join("alone");
        fs::create_dir(&alone).unwrap();
        for file in ["spank_sgpu_ckpt.so", "sgpu-sigrelay"] {
            let from = cluster.opt().join("plugins").join(file);
            fs::copy(from, alone.join(file)).unwrap();
        }
        let said = || {
            let show = "echo ${SGPU_CKPT_MARKS-unset}; /tmp/sgpu-ckpt mark 2>/dev/null; echo $?";
            let said = run(&cluster, User::Alice, "srun", &["sh", "-c", show]);
            said.ok().unwrap()
        };
        sealed.plugstack(
            "",
            "optional /opt/sgpu/alone/spank_sgpu_ckpt.so signal=USR1@30\n",
        );
        let without = said();
        assert_eq!(without.stdout, "unset\n1\n", "{without}");
        assert_eq!(without.stderr, "", "{without}");
        // Two of the plugin, of which the first does all.
        sealed.plugstack(
            "",
            "optional spank_sgpu_ckpt.so signal=USR1@30\n\
             optional /opt/sgpu/alone/spank_sgpu_ckpt.so signal=USR1@30\n",
        );
        fs::copy(
            cluster.opt().join("plugins/sgpu-ckpt"),
            alone.join("sgpu-ckpt"),
        )
        .unwrap();
        let twice = said();
        let lines: Vec<&str> = twice.stdout.lines().collect();
        assert!(lines[0].starts_with('@'), "{twice}");
        assert!(lines[1].contains("checkpoint marked"), "{twice}");
        assert_eq!(lines[2], "0", "{twice}");
        sealed.open();
        cluster.stop().unwrap();
    });
}
