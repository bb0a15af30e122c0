//! `--checkpoint-signal` and `sgpu-ckpt` on real clusters.

use std::time::Duration;

use harness::{Builder, Cluster, JobId, Output, Plugins, Release, User};
use suites::on_each_spank_release;
use suites::sealed::Sealed;

/// A program that checkpoints: each signal that it and its data loaders get is a line of `log`, with the
/// time. It ends with code 0 when a file `stop` appears.
const TRAIN: &str = r#"
import os, signal, sys, time
name = sys.argv[1]
log = os.open(name + ".log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
who = "main"
def say(what):
    os.write(log, f"{who} {what} {time.time():.2f}\n".encode())
def told(number, frame):
    say(signal.Signals(number).name)
for number in [signal.SIGUSR1, signal.SIGUSR2] + [getattr(signal, more) for more in sys.argv[2:]]:
    signal.signal(number, told)
for loader in range(2):
    if os.fork() == 0:
        who = "loader"
        while True:
            time.sleep(0.1)
for variable in ["SIGNAL", "GRACE"]:
    say(variable + "=" + os.environ.get("SGPU_CKPT_" + variable, "none"))
say("RESTARTS=" + os.environ.get("SGPU_RESTART_COUNT", "none"))
say("ready")
flag = os.environ.get("SGPU_CKPT_FILE")
while not os.path.exists(name + ".stop"):
    if flag and os.path.exists(flag):
        say("flag mode=%o" % (os.stat(flag).st_mode & 0o777))
        flag = None
    time.sleep(0.1)
say("stopped")
os.killpg(0, signal.SIGKILL) if os.getpgrp() == os.getpid() else None
sys.exit(0)
"#;

const PLUGSTACK: &str = "optional spank_sgpu_ckpt.so\n";

/// What daemons log when a job is ended from outside: its srun is gone before its task, perhaps while slurmctld
/// answers it.
const SRUN_IS_GONE: &str = "Failed to send MESSAGE_TASK_EXIT|Zero Bytes were transmitted|\
                            Unexpected missing socket error";

fn builder(release: Release) -> Builder {
    Cluster::builder(release)
        .plugins(Plugins::Ours)
        .etc_slurm("plugstack.conf", PLUGSTACK)
        .slurm_conf_extra("KillWait=5")
}

fn cluster(release: Release) -> Cluster {
    start(builder(release))
}

fn start(builder: Builder) -> Cluster {
    let cluster = builder.start().unwrap();
    let path = home(&cluster, "train.py");
    std::fs::write(path, TRAIN).unwrap();
    cluster
}

/// A file of alice's home, on the host.
fn home(cluster: &Cluster, name: &str) -> std::path::PathBuf {
    let path = format!("/home/alice/{name}");
    cluster.path(cluster.controller(), &path).unwrap()
}

/// What a program said: who, what, when.
fn said(cluster: &Cluster, name: &str) -> Vec<(String, String, f64)> {
    let text = std::fs::read_to_string(home(cluster, &format!("{name}.log"))).unwrap_or_default();
    text.lines()
        .map(|line| {
            let (rest, time) = line.rsplit_once(' ').unwrap();
            let (who, what) = rest.split_once(' ').unwrap();
            (who.to_owned(), what.to_owned(), time.parse().unwrap())
        })
        .collect()
}

/// How often somebody said something.
fn times(cluster: &Cluster, name: &str, who: &str, what: &str) -> usize {
    said(cluster, name)
        .iter()
        .filter(|(by, text, _)| by == who && text == what)
        .count()
}

/// Waits until the program has said it so often, and gives when it last did.
fn wait_said(cluster: &Cluster, name: &str, what: &str, count: usize) -> f64 {
    cluster
        .wait_until(
            &format!("{name}: {what}, {count} times"),
            Duration::from_secs(60),
            || {
                let lines = said(cluster, name);
                let mut found = lines.iter().filter(|(_, text, _)| text == what);
                found
                    .nth(count - 1)
                    .map(|(.., time)| *time)
                    .ok_or_else(|| format!("{lines:?}"))
            },
        )
        .unwrap()
}

fn stop(cluster: &Cluster, name: &str) {
    std::fs::write(home(cluster, &format!("{name}.stop")), "").unwrap();
}

fn as_alice(cluster: &Cluster, program: &str, words: &[&str]) -> Output {
    cluster
        .command(program)
        .args(words)
        .user(User::Alice)
        .run()
        .unwrap()
}

fn job(cluster: &Cluster, options: &[&str], script: &str) -> JobId {
    cluster.sbatch_as(User::Alice, options, script).unwrap()
}

fn wait_state(cluster: &Cluster, id: JobId, state: &str) {
    cluster
        .wait_job_state(id, state, Duration::from_secs(60))
        .unwrap();
}

/// When a job is to end.
fn end_of(cluster: &Cluster, id: JobId) -> f64 {
    let said = cluster
        .command("squeue")
        .args(["-h", "-j", &id.to_string(), "-o", "%e"])
        .env("SLURM_TIME_FORMAT", "%s")
        .run()
        .unwrap();
    said.stdout.trim().parse().unwrap()
}

#[test]
fn the_program_is_told_once_before_the_end() {
    on_each_spank_release(|release| {
        let cluster = cluster(release);
        // A minute less 50 seconds; two shells in front of the program.
        let id = job(
            &cluster,
            &["-t1", "-n1"],
            "srun --checkpoint-signal=USR1@50,file bash -c 'sh -c \"python3 train.py a; exit 3\"; exit $?'",
        );
        wait_said(&cluster, "a", "ready", 1);
        let end = end_of(&cluster, id);
        let told = wait_said(&cluster, "a", "SIGUSR1", 1);
        assert!(
            (end - 50.5..end - 47.0).contains(&told),
            "told at {told}, the end is {end}"
        );
        wait_said(&cluster, "a", "flag mode=600", 1);
        // slurmctld's own time for another signal is over; the clock does not strike twice.
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(times(&cluster, "a", "main", "SIGUSR1"), 1);
        assert_eq!(times(&cluster, "a", "loader", "SIGUSR1"), 0);
        assert_eq!(times(&cluster, "a", "main", "SIGNAL=USR1"), 1);
        assert_eq!(times(&cluster, "a", "main", "GRACE=50"), 1);
        stop(&cluster, "a");
        wait_state(&cluster, id, "FAILED");
        assert_eq!(cluster.job_field(id, "ExitCode").unwrap(), "3:0");
        let left = as_alice(&cluster, "srun", &["sh", "-c", "ls -d /tmp/sgpu-ckpt-*"]);
        assert_eq!(left.stdout, "", "the flag's folder is left");
        cluster.stop().unwrap();
    });
}

#[test]
fn a_users_signal_reaches_the_program_of_the_chosen_scope() {
    on_each_spank_release(|release| {
        let cluster = cluster(release);
        let id = job(
            &cluster,
            &["--checkpoint-signal=USR1@5,forward=USR2"],
            "srun bash -c 'python3 train.py a; true' &\n\
             srun --overlap --checkpoint-signal=USR1@5,scope=tree bash -c 'python3 train.py b; true' &\nwait",
        );
        wait_said(&cluster, "a", "ready", 1);
        wait_said(&cluster, "b", "ready", 1);
        as_alice(&cluster, "scancel", &["-s", "USR1", &id.to_string()])
            .ok()
            .unwrap();
        wait_said(&cluster, "a", "SIGUSR2", 1);
        wait_said(&cluster, "b", "SIGUSR1", 3);
        assert_eq!(times(&cluster, "a", "loader", "SIGUSR2"), 0);
        assert_eq!(times(&cluster, "a", "main", "SIGUSR1"), 0);
        assert_eq!(times(&cluster, "b", "main", "SIGUSR1"), 1);
        assert_eq!(times(&cluster, "b", "loader", "SIGUSR1"), 2);
        // A second one goes through as well.
        as_alice(&cluster, "scancel", &["-s", "USR1", &id.to_string()])
            .ok()
            .unwrap();
        wait_said(&cluster, "a", "SIGUSR2", 2);
        stop(&cluster, "a");
        stop(&cluster, "b");
        wait_state(&cluster, id, "COMPLETED");
        cluster.stop().unwrap();
    });
}

#[test]
fn a_batch_script_without_steps_has_its_program_told_too() {
    on_each_spank_release(|release| {
        let cluster = cluster(release);
        let id = job(
            &cluster,
            &["-t1", "--checkpoint-signal=USR1@52"],
            "python3 train.py a\nexit 4",
        );
        wait_said(&cluster, "a", "SIGUSR1", 1);
        assert_eq!(times(&cluster, "a", "loader", "SIGUSR1"), 0);
        stop(&cluster, "a");
        wait_state(&cluster, id, "FAILED");
        assert_eq!(cluster.job_field(id, "ExitCode").unwrap(), "4:0");
        cluster.stop().unwrap();
    });
}

/// Exit codes and deaths, for srun and for the job, without the relay and with it.
#[test]
fn a_task_ends_as_it_does_without_a_relay() {
    on_each_spank_release(|release| {
        let cluster = start(
            builder(release)
                .allow_log("execve|no-such-program|nothing.sh|Permission denied")
                .allow_log("error: .*task .*: (Segmentation|Killed|Terminated|Aborted|User)"),
        );
        let script = home(&cluster, "nothing.sh");
        std::fs::write(&script, "exit 9\n").unwrap();
        for command in [
            &["true"][..],
            &["sh", "-c", "exit 7"],
            &["sh", "-c", "kill -SEGV $$"],
            &["sh", "-c", "kill -KILL $$"],
            &["sh", "-c", "kill -TERM $$"],
            &["sh", "-c", "kill -USR1 $$"],
            &[
                "sh",
                "-c",
                "trap '' PIPE; exec sh -c 'kill -PIPE $$; exit 5'",
            ],
            &["no-such-program"],
            &["./nothing.sh"],
            &["/tmp"],
        ] {
            let [without, with] = ["off", "USR1@30"].map(|value| {
                let option = format!("--checkpoint-signal={value}");
                let words = [&[option.as_str()], command].concat();
                let srun = as_alice(&cluster, "srun", &words).status.code();
                let quoted: Vec<String> =
                    command.iter().map(|word| format!("\"{word}\"")).collect();
                let line = quoted.join(" ").replace("$$", "\\$\\$");
                let id = job(&cluster, &[], &format!("srun {option} {line}"));
                let end = cluster
                    .wait_until("the job's end", Duration::from_secs(30), || {
                        let state = cluster.job_field(id, "JobState").unwrap();
                        if ["COMPLETED", "FAILED"].contains(&state.as_str()) {
                            Ok((state, cluster.job_field(id, "ExitCode").unwrap()))
                        } else {
                            Err(state)
                        }
                    })
                    .unwrap();
                (srun, end)
            });
            assert_eq!(with, without, "{command:?}");
        }
        // What a task inherits: blocked, ignored and caught signals, descriptors, its process group.
        let state = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ls /proc/self/fd; ulimit -a; env | \
                     grep -vE '^(SGPU_|SLURM_|SRUN_)' | sort";
        let [without, with] = ["off", "USR1@30"].map(|value| {
            let option = format!("--checkpoint-signal={value}");
            as_alice(&cluster, "srun", &[&option, "sh", "-c", state])
                .ok()
                .unwrap()
                .stdout
        });
        assert_eq!(with, without);
        cluster.stop().unwrap();
    });
}

/// Which file a task's program is, what it calls itself, and what its own signals do to it.
#[test]
fn a_task_is_the_same_program_with_a_relay() {
    const WORDS: [&str; 6] = [
        "mkdir -p p3 p4; printf '#!/bin/sh\\necho ran $0\\n' >p4/tool; touch p3/tool",
        "cp p4/tool train_it; chmod +x p4/tool train_it",
        "export PATH=$PWD/p3:$PWD/p4:$PATH",
        "for how in train_it tool 'cat /proc/self/cmdline' ./train_it \"python3 group.py\"; do \
         for value in off USR1@2; do eval srun -Q --checkpoint-signal=$value $how; echo code $?; done; done",
        "rm p3/tool",
        "for value in off USR1@2; do srun -Q --checkpoint-signal=$value tool; echo code $?; done",
    ];
    const GROUP: &str = "
import os, signal, time
signal.signal(signal.SIGUSR1, lambda *_: print('told'))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.killpg(0, signal.SIGTERM)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
time.sleep(5)
print('finished well')
";
    on_each_spank_release(|release| {
        let cluster = start(builder(release).allow_log("execve|Permission denied"));
        std::fs::write(home(&cluster, "group.py"), GROUP).unwrap();
        let id = job(&cluster, &[], &WORDS.join("\n"));
        wait_state(&cluster, id, "COMPLETED");
        let output = cluster.job_output(User::Alice, id).unwrap();
        // Each program's two runs: what they print, and their codes.
        let mut pairs: Vec<String> = Vec::new();
        for line in output
            .lines()
            .filter(|line| !line.contains("error: ") && !line.contains("execve"))
        {
            match pairs.last_mut() {
                Some(last) if !last.contains("code ") => {
                    last.push(' ');
                    last.push_str(line);
                }
                _ => pairs.push(line.to_owned()),
            }
        }
        assert_eq!(pairs.len(), 12, "{output}");
        for pair in pairs.chunks(2) {
            assert_eq!(pair[0], pair[1], "{output}");
        }
        assert!(pairs[0].contains("ran train_it code 0"), "{output}");
        assert_eq!(pairs[2], "code 13", "{output}");
        assert_eq!(pairs[8], "finished well code 0", "{output}");
        assert!(pairs[10].ends_with("/p4/tool code 0"), "{output}");
        cluster.stop().unwrap();
    });
}

#[test]
fn scancel_ends_a_job() {
    on_each_spank_release(|release| {
        let cluster = start(builder(release).allow_log(SRUN_IS_GONE));
        // USR1 has a handler, TERM has none: TERM is passed on when the two seconds are over.
        let id = job(
            &cluster,
            &[],
            "srun --checkpoint-signal=USR1@2 python3 train.py a",
        );
        wait_said(&cluster, "a", "ready", 1);
        as_alice(&cluster, "scancel", &[&id.to_string()])
            .ok()
            .unwrap();
        wait_state(&cluster, id, "CANCELLED");
        wait_said(&cluster, "a", "SIGUSR1", 1);
        // One that handles both and does not end goes with KillWait.
        let id = job(
            &cluster,
            &[],
            "srun --checkpoint-signal=USR1@2 python3 train.py b SIGTERM",
        );
        wait_said(&cluster, "b", "ready", 1);
        as_alice(&cluster, "scancel", &[&id.to_string()])
            .ok()
            .unwrap();
        wait_said(&cluster, "b", "SIGTERM", 1);
        cluster.wait_nodes("idle", Duration::from_secs(30)).unwrap();
        assert_eq!(times(&cluster, "b", "main", "SIGUSR1"), 1);
        cluster.stop().unwrap();
    });
}

#[test]
fn a_preempted_job_is_told_and_knows_its_restarts() {
    on_each_spank_release(|release| {
        let cluster = start(
            builder(release)
                .allow_log(SRUN_IS_GONE)
                .accounting(true)
                .slurm_conf_extra("PreemptType=preempt/qos\nPreemptMode=REQUEUE"),
        );
        for words in [
            "add qos low GraceTime=8 PreemptMode=requeue",
            "add qos high Preempt=low Priority=10",
            "modify user alice set qos+=low,high",
        ] {
            let words = std::iter::once("-i").chain(words.split(' '));
            cluster.run("sacctmgr", words).unwrap().ok().unwrap();
        }
        let id = job(
            &cluster,
            &["-qlow", "--requeue", "--exclusive"],
            "srun --checkpoint-signal=USR1@60 bash -c 'python3 train.py a; true'",
        );
        wait_said(&cluster, "a", "ready", 1);
        assert_eq!(times(&cluster, "a", "main", "RESTARTS=0"), 1);
        let high = job(&cluster, &["-qhigh", "--exclusive"], "sleep 2");
        wait_said(&cluster, "a", "SIGUSR1", 1);
        // 22.05 requeues no job that ends by itself within the grace. From 24.05 on Slurm does; there a job that
        // does not is requeued twice: Slurm forgets to take GRACE_PREEMPT off it.
        if release >= Release::Slurm24_11 {
            stop(&cluster, "a");
        }
        wait_state(&cluster, high, "COMPLETED");
        drop(std::fs::remove_file(home(&cluster, "a.stop")));
        assert_eq!(times(&cluster, "a", "main", "SIGUSR1"), 1);
        assert_eq!(times(&cluster, "a", "loader", "SIGUSR1"), 0);
        // Slurm keeps a requeued job back for a while.
        cluster
            .run(
                "scontrol",
                ["update", &format!("JobId={id}"), "StartTime=now"],
            )
            .unwrap();
        cluster
            .wait_until("the second run", Duration::from_secs(180), || {
                match times(&cluster, "a", "main", "RESTARTS=1") {
                    1 => Ok(()),
                    _ => Err(cluster.job_field(id, "JobState").unwrap()),
                }
            })
            .unwrap();
        stop(&cluster, "a");
        wait_state(&cluster, id, "COMPLETED");
        cluster.stop().unwrap();
    });
}

#[test]
fn a_container_hides_no_relay() {
    on_each_spank_release(|release| {
        for folders in [
            &["usr", "etc", "home", "dev", "proc"][..],
            &["usr", "etc", "home", "dev"],
        ] {
            let cluster = cluster(release);
            let sealed = Sealed::new(&cluster, release, PLUGSTACK, folders);
            let mut srun = cluster
                .command("srun")
                .args(["--checkpoint-signal=USR1@30,file", "-J", "boxed"])
                .args(["sh", "-c", "ls /opt; python3 train.py a; exit 6"])
                .spawn()
                .unwrap();
            wait_said(&cluster, "a", "ready", 1);
            let id = suites::jobs::wait_running(&cluster, "boxed");
            if !folders.contains(&"proc") {
                // Nobody can be found without /proc; the task is as it would be without us.
                stop(&cluster, "a");
            } else {
                cluster
                    .run("scancel", ["-s", "USR1", &id.to_string()])
                    .unwrap()
                    .ok()
                    .unwrap();
                wait_said(&cluster, "a", "SIGUSR1", 1);
                wait_said(&cluster, "a", "flag mode=600", 1);
                assert_eq!(times(&cluster, "a", "loader", "SIGUSR1"), 0);
                stop(&cluster, "a");
            }
            let ended = srun.wait().unwrap();
            assert_eq!(ended.code(), Some(6));
            sealed.open();
            cluster.stop().unwrap();
        }
    });
}

#[test]
fn a_relay_that_cannot_be_had_costs_a_notice_only() {
    on_each_spank_release(|release| {
        let plugstack =
            "optional spank_sgpu_ckpt.so relay=/etc/slurm/relay signal=USR1@60 colour=red\n";
        let cluster = start(
            builder(release)
                .etc_slurm("plugstack.conf", plugstack)
                .allow_log("sgpu_ckpt: the relay |sgpu_ckpt: plugstack.conf: .colour=red"),
        );
        let said = as_alice(&cluster, "srun", &["sh", "-c", "echo ran"])
            .ok()
            .unwrap();
        assert_eq!(said.stdout, "ran\n");
        let notice = "runs without checkpoint signals";
        assert_eq!(said.stderr.matches(notice).count(), 0, "{said}");
        let log = cluster.slurmd_log(cluster.node(1));
        assert_eq!(log.matches(notice).count(), 1, "{log}");
        // Who has asked is told himself.
        let asked = ["--checkpoint-signal=USR1", "sh", "-c", "echo ran"];
        let said = as_alice(&cluster, "srun", &asked).ok().unwrap();
        assert_eq!(said.stdout, "ran\n");
        assert_eq!(said.stderr.matches(notice).count(), 1, "{said}");
        assert!(said.stderr.contains("No such file"), "{said}");
        // No program, and one that is root's alone.
        cluster.write_etc("relay", "no program\n").unwrap();
        let said = as_alice(&cluster, "srun", &asked).ok().unwrap();
        assert_eq!(said.stdout, "ran\n");
        assert!(said.stderr.contains("it is no program"), "{said}");
        cluster
            .command("sh")
            .args(["-c", "cd /etc/slurm && rm relay && cp /opt/sgpu/plugins/sgpu-sigrelay relay && chmod 700 relay"])
            .user(User::Root)
            .run()
            .unwrap()
            .ok()
            .unwrap();
        let said = as_alice(&cluster, "srun", &asked).ok().unwrap();
        assert_eq!(said.stdout, "ran\n");
        assert!(said.stderr.contains("cannot be executed"), "{said}");
        cluster.stop().unwrap();
    });
}

#[test]
fn wrong_values_are_refused_and_the_site_has_a_default() {
    on_each_spank_release(|release| {
        let cluster =
            start(builder(release).etc_slurm("sgpu.toml", "[checkpoint]\nsignal = \"USR2@77\"\n"));
        for program in ["srun", "sbatch", "salloc"] {
            for value in ["KILL@60", "USR1@0", "USR1,scope=all", "USR1,forward", "60"] {
                let option = format!("--checkpoint-signal={value}");
                let command = if program == "sbatch" {
                    "--wrap=hostname"
                } else {
                    "hostname"
                };
                let refused = as_alice(&cluster, program, &[&option, command])
                    .failed()
                    .unwrap();
                assert!(
                    refused.stderr.contains("--checkpoint-signal: "),
                    "{refused}"
                );
            }
        }
        let show = "echo $SGPU_CKPT_SIGNAL $SGPU_CKPT_GRACE $SGPU_RESTART_COUNT";
        let of = |words: &[&str]| {
            let words = [words, &["sh", "-c", show]].concat();
            as_alice(&cluster, "srun", &words).ok().unwrap().stdout
        };
        assert_eq!(of(&[]), "USR2 77 0\n");
        assert_eq!(of(&["--checkpoint-signal=USR1"]), "USR1 60 0\n");
        assert_eq!(of(&["--checkpoint-signal=off"]), "\n");
        // A batch script's are not its steps'.
        let script = "env | grep -c ^SGPU_CKPT_\nsrun --checkpoint-signal=off env | grep -c ^SGPU_CKPT_ || true";
        let id = job(&cluster, &["--checkpoint-signal=USR1,file"], script);
        wait_state(&cluster, id, "COMPLETED");
        assert_eq!(cluster.job_output(User::Alice, id).unwrap(), "3\n0\n");
        cluster.stop().unwrap();
    });
}

const MARK: &str = r#"
mark=/opt/sgpu/plugins/sgpu-ckpt
$mark mark; echo "code $?"
squeue -h -j $SLURM_JOB_ID -o %k
$mark mark; echo "code $?"
sleep 2
$mark mark --every 1 --quiet; echo "code $?"
squeue -h -j $SLURM_JOB_ID -o %k
sleep 2
SQUEUE_STATES=PD SQUEUE_PARTITION=none $mark mark --every 1 --quiet; echo "code $?"
squeue -h -j $SLURM_JOB_ID -o %k
PATH=/nonexistent $mark mark 2>&1; echo "code $?"
env -u SLURM_JOB_ID $mark mark 2>&1; echo "code $?"
SLURM_PROCID=3 $mark mark; echo "code $?"
"#;

/// The time of the mark in a comment, and the comment with `T` in its place.
fn marked(comment: &str) -> (u64, String) {
    let (before, rest) = comment.split_once("sgpu:ckpt=").unwrap();
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    (
        rest[..end].parse().unwrap(),
        format!("{before}T{}", &rest[end..]),
    )
}

#[test]
fn a_mark_keeps_the_rest_of_the_comment() {
    on_each_spank_release(|release| {
        let cluster = start(
            builder(release).etc_slurm("sgpu.toml", "[checkpoint]\nmark_every_minimum = 1\n"),
        );
        // Everything that a shell, a format or a line of scontrol could trip over.
        let comment = "run=5 'x' \"y\" $HOME `id` Comment=z %s\\n JobId=1 Grüße,;| (null)";
        let id = job(&cluster, &["--comment", comment], MARK);
        wait_state(&cluster, id, "COMPLETED");
        let output = cluster.job_output(User::Alice, id).unwrap();
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines.len(), 15, "{output}");
        assert!(lines[0].contains("checkpoint marked at"), "{output}");
        let (first, rest) = marked(lines[2]);
        assert_eq!(rest, format!("{comment} T"), "{output}");
        assert!(lines[3].contains("young enough"), "{output}");
        let (second, rest) = marked(lines[6]);
        assert_eq!(rest, format!("{comment} T"), "{output}");
        assert!(second >= first + 2, "{output}");
        let (third, rest) = marked(lines[8]);
        assert_eq!(rest, format!("{comment} T"), "{output}");
        assert!(third >= second + 2, "{output}");
        assert!(lines[9].contains("squeue: No such file"), "{output}");
        assert!(lines[11].contains("not in a job"), "{output}");
        let codes: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("code "))
            .collect();
        assert_eq!(codes, ["0", "0", "0", "0", "4", "3", "0"], "{output}");
        cluster.stop().unwrap();
    });
}

/// By its job's number alone, an update of an array's last task would go to the whole array.
#[test]
fn an_arrays_tasks_are_marked_singly() {
    on_each_spank_release(|release| {
        let cluster = cluster(release);
        let script = "[ $SLURM_ARRAY_TASK_ID = 2 ] && srun /opt/sgpu/plugins/sgpu-ckpt mark\n\
                      touch ran.$SLURM_ARRAY_TASK_ID\nwhile ! [ -e a.stop ]; do sleep 0.1; done";
        let id = job(&cluster, &["--array=1-2", "--comment=c"], script);
        for task in [1, 2] {
            cluster
                .wait_until("the task", Duration::from_secs(60), || {
                    let ran = home(&cluster, &format!("ran.{task}"));
                    ran.exists().then_some(()).ok_or_else(String::new)
                })
                .unwrap();
        }
        let comment = |task: u32| {
            let job = format!("{id}_{task}");
            as_alice(&cluster, "squeue", &["-h", "-j", &job, "-o", "%k"])
                .stdout
                .trim_end()
                .to_owned()
        };
        assert_eq!(comment(1), "c");
        assert_eq!(marked(&comment(2)).1, "c T");
        stop(&cluster, "a");
        cluster
            .wait_until("the array's end", Duration::from_secs(60), || {
                let left = as_alice(&cluster, "squeue", &["-h"]).stdout;
                if left.is_empty() { Ok(()) } else { Err(left) }
            })
            .unwrap();
        cluster.stop().unwrap();
    });
}

/// A terminal's ^C reaches the program once, and the terminal is its own.
#[test]
fn a_terminal_stays_the_tasks_own() {
    on_each_spank_release(|release| {
        // The test's terminal has no size.
        let cluster = start(builder(release).allow_log("SLURM_PTY_WIN_"));
        let type_and_look = r#"
import os, select, sys, time
pid, fd = os.forkpty()
if pid == 0:
    os.execvp("srun", ["srun", "--pty", sys.argv[1], "bash", "-c", sys.argv[2]])
seen = b""
typed = False
end = time.time() + 40
while time.time() < end:
    if select.select([fd], [], [], 0.2)[0]:
        try:
            more = os.read(fd, 4096)
        except OSError:
            break
        if not more:
            break
        seen += more
    if not typed and b"ready" in seen:
        typed = True
        time.sleep(0.5)
        os.write(fd, b"\x03")
print(seen.decode().replace("\r", ""), "ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;
        std::fs::write(home(&cluster, "typist.py"), type_and_look).unwrap();
        // Once it has caught one, it waits for another that should not come.
        let script = "trap 'echo caught; caught=1' INT; tty >/dev/null && echo on a tty; echo ready; \
                      for i in $(seq 100); do [ \"$caught\" ] && break; sleep 0.1; done; \
                      for i in 1 2 3; do sleep 0.3; done; exit 5";
        let [without, with] = ["off", "USR1@30"].map(|value| {
            let option = format!("--checkpoint-signal={value}");
            as_alice(&cluster, "python3", &["typist.py", &option, script])
                .ok()
                .unwrap()
                .stdout
        });
        assert_eq!(without.matches("caught").count(), 1, "{without}");
        assert!(
            without.contains("on a tty") && without.contains("ended 5"),
            "{without}"
        );
        assert_eq!(with, without);
        cluster.stop().unwrap();
    });
}
