//! How a mark gets out of a container: `sgpu-ckpt mark` there asks `sgpu-ckpt serve`, which the plugin has
//! started outside of it, over a socket with an abstract name.

/// The variable that tells a task where to ask: `@` and the socket's name.
pub const VARIABLE: &str = "SGPU_CKPT_MARKS";
/// The longest question, in bytes, its line's end among them.
pub const LONGEST_ASK_BYTES: u64 = 64;
/// The longest answer.
pub const LONGEST_ANSWER_BYTES: u64 = 4096;

/// The variables that a mark goes by, as the task has them.
const OF_THE_TASK: [&str; 5] = [
    "SLURM_JOB_ID",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_PROCID",
    "SLURMD_NODENAME",
];

/// A question: to mark a checkpoint, unless the last mark is younger than this.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ask {
    /// In seconds.
    pub every: u64,
}

impl Ask {
    /// As it is sent.
    #[must_use]
    pub fn line(self) -> String {
        format!("mark every={}\n", self.every)
    }

    /// Reads what was sent; `None`: no question.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let digits = line.strip_prefix("mark every=")?.strip_suffix('\n')?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let every = plain.then(|| digits.parse().ok())??;
        Some(Self { every })
    }
}

/// An answer: what `sgpu-ckpt mark` prints, and its exit code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// The exit code.
    pub code: u8,
    /// In words.
    pub text: String,
}

impl Answer {
    /// As it is sent: one line, whatever the words are.
    #[must_use]
    pub fn line(&self) -> String {
        let words = self.text.replace(char::is_control, " ");
        let room = usize::try_from(LONGEST_ANSWER_BYTES).unwrap_or(usize::MAX);
        let mut line = format!("{} {words}", self.code);
        let mut end = line.len().min(room.saturating_sub(1));
        while !line.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        line.truncate(end);
        line.push('\n');
        line
    }

    /// Reads what was sent; `None`: no answer, or one that was cut off.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (code, text) = line.strip_suffix('\n')?.split_once(' ')?;
        Some(Self {
            code: code.parse().ok()?,
            text: text.to_owned(),
        })
    }
}

/// The socket's name in the variable's value.
#[must_use]
pub fn name(value: &str) -> Option<&str> {
    value.strip_prefix('@').filter(|name| !name.is_empty())
}

/// The variables of `sgpu-ckpt serve` that are the task's, as `NAME=value`. What Slurm would never put there is
/// left out: a user may have set them.
#[must_use]
pub fn environment(var: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let plain = |value: &String| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..256).contains(&value.len()) && value.bytes().all(known)
    };
    OF_THE_TASK
        .iter()
        .filter_map(|name| Some(format!("{name}={}", var(name).filter(plain)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_as_they_are_sent() {
        let ask = Ask { every: 600 };
        assert_eq!(ask.line(), "mark every=600\n");
        assert_eq!(Ask::parse(&ask.line()), Some(ask));
        let longest = Ask { every: u64::MAX }.line();
        assert!(u64::try_from(longest.len()).unwrap() <= LONGEST_ASK_BYTES);
        for line in [
            "",
            "\n",
            "mark every=600",
            "mark every=\n",
            "mark every=+5\n",
            "mark every=-5\n",
            "mark every=5 \n",
            "mark every=5\n\n",
            "mark every=99999999999999999999\n",
            "mark\n",
            "unmark every=5\n",
        ] {
            assert_eq!(Ask::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn answers_are_one_line() {
        let answer = |code, text: &str| Answer {
            code,
            text: text.into(),
        };
        assert_eq!(
            answer(1, "no\nroom\u{1b}[m").line(),
            "1 no room [m\n".to_owned()
        );
        let said = answer(0, "job 5: checkpoint marked at 77");
        assert_eq!(Answer::parse(&said.line()), Some(said));
        assert_eq!(Answer::parse("4 \n"), Some(answer(4, "")));
        for line in ["", "\n", "0", "0\n", "x y\n", "256 a\n", "0 cut of"] {
            assert_eq!(Answer::parse(line), None, "{line:?}");
        }
        let long = answer(0, &"ü".repeat(5000)).line();
        assert!(u64::try_from(long.len()).unwrap() <= LONGEST_ANSWER_BYTES);
        assert!(Answer::parse(&long).is_some());
    }

    #[test]
    fn names_are_abstract() {
        assert_eq!(name("@0001f"), Some("0001f"));
        for value in ["", "@", "/tmp/socket", "0001f"] {
            assert_eq!(name(value), None, "{value:?}");
        }
    }

    #[test]
    fn the_environment_has_what_slurm_sets_and_nothing_else() {
        let of = |vars: &[(&str, &str)]| {
            environment(|name| {
                let found = vars.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let all = of(&[
            ("SLURM_JOB_ID", "12"),
            ("SLURM_PROCID", "0"),
            ("SLURMD_NODENAME", "gpu-01.cluster"),
            ("LD_PRELOAD", "/tmp/x"),
        ]);
        assert_eq!(
            all,
            [
                "SLURM_JOB_ID=12",
                "SLURM_PROCID=0",
                "SLURMD_NODENAME=gpu-01.cluster"
            ]
        );
        assert!(of(&[("SLURM_JOB_ID", "1\nLD_PRELOAD=/tmp/x")]).is_empty());
        assert!(of(&[("SLURM_JOB_ID", "")]).is_empty());
    }
}
