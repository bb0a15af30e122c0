//! Jobs as a file has them.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// A job of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// When it was submitted, in seconds since the first.
    pub submit_s: u64,
    /// How long it ran.
    pub duration_s: u64,
    /// How many GPUs it had.
    pub gpus: u32,
    /// Who it was charged to, where the trace says so.
    pub account: Option<String>,
    /// Its time limit, where the trace says so.
    pub limit_s: Option<u64>,
}

/// Reads a trace, by its head line: `submit_s,duration_s,gpus,vc` (Philly), `name,cpu_milli,...` (openb's pods), or
/// what `sacct -P -X -o JobID,Submit,Start,End,Timelimit,AllocTRES,Account` prints. Jobs without GPUs, and those
/// that never ran, are left out.
///
/// # Errors
/// The file cannot be read, or is none of these; with the line.
pub fn read(path: &Path) -> Result<Vec<Traced>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
}

/// The same of a text.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str) -> Result<Vec<Traced>> {
    let head = text.lines().next().unwrap_or_default();
    let delimiter = if head.contains('|') { b'|' } else { b',' };
    let mut rows = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .quoting(delimiter == b',')
        .from_reader(text.as_bytes());
    let names: Vec<String> = rows.headers()?.iter().map(str::to_owned).collect();
    let has = |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let row: fn(&Row<'_>) -> Result<Option<Traced>> = if has("duration_s") {
        philly
    } else if has("num_gpu") {
        openb
    } else if has("AllocTRES") {
        sacct
    } else {
        bail!(
            "line 1: {head:?} is the head of no trace that is known: submit_s,duration_s,gpus,vc; openb's pods; \
             sacct -P -X -o JobID,Submit,Start,End,Timelimit,AllocTRES,Account"
        );
    };
    let mut jobs = Vec::new();
    for (record, line) in rows.records().zip(2..) {
        let record = record.with_context(|| format!("line {line}"))?;
        let found = row(&Row {
            names: &names,
            record: &record,
        });
        jobs.extend(found.with_context(|| format!("line {line}"))?);
    }
    let first = jobs.iter().map(|job| job.submit_s).min().unwrap_or(0);
    for job in &mut jobs {
        job.submit_s -= first;
    }
    jobs.sort_by_key(|job| job.submit_s);
    Ok(jobs)
}

struct Row<'a> {
    names: &'a [String],
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    fn text(&self, name: &str) -> Result<&str> {
        let place = self
            .names
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name));
        place
            .and_then(|place| self.record.get(place))
            .with_context(|| format!("no {name}"))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        let text = self.text(name)?;
        text.parse()
            .ok()
            .with_context(|| format!("{name}: {text:?} is no number"))
    }
}

fn philly(row: &Row<'_>) -> Result<Option<Traced>> {
    Ok(Some(Traced {
        submit_s: row.number("submit_s")?,
        duration_s: row.number("duration_s")?,
        gpus: row.number("gpus")?,
        account: Some(row.text("vc")?.to_owned()),
        limit_s: None,
    }))
}

/// A pod with a share of a GPU has one here.
fn openb(row: &Row<'_>) -> Result<Option<Traced>> {
    let gpus: u32 = row.number("num_gpu")?;
    let (Ok(began), Ok(ended)) = (
        row.number::<u64>("scheduled_time"),
        row.number("deletion_time"),
    ) else {
        return Ok(None);
    };
    Ok((gpus > 0).then(|| Traced {
        submit_s: row.number("creation_time").unwrap_or(began),
        duration_s: u64::saturating_sub(ended, began),
        gpus,
        account: None,
        limit_s: None,
    }))
}

fn sacct(row: &Row<'_>) -> Result<Option<Traced>> {
    let gpus = row
        .text("AllocTRES")?
        .split(',')
        .find_map(|tres| tres.strip_prefix("gres/gpu=")?.parse().ok());
    let (Some(gpus), Some(start), Some(end)) =
        (gpus, time(row.text("Start")?), time(row.text("End")?))
    else {
        return Ok(None);
    };
    let submit = row.text("Submit")?;
    Ok(Some(Traced {
        submit_s: time(submit).with_context(|| format!("Submit: {submit:?} is no time"))?,
        duration_s: end.saturating_sub(start),
        gpus,
        account: Some(row.text("Account")?.to_owned()),
        limit_s: span(row.text("Timelimit")?),
    }))
}

/// Slurm's `2026-01-31T12:00:00` in seconds since 1970, taken for UTC; `None` for `Unknown` and `None`.
#[must_use]
pub fn time(text: &str) -> Option<u64> {
    let (date, clock) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut clock = clock.splitn(3, ':').map(str::parse::<u64>);
    let (hour, minute, second) = (
        clock.next()?.ok()?,
        clock.next()?.ok()?,
        clock.next()?.ok()?,
    );
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 0000-03-01, where a year begins in March, less those up to 1970.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Slurm's `[days-]hours:minutes:seconds` in seconds.
fn span(text: &str) -> Option<u64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let days: u64 = days.parse().ok()?;
    let clock: Vec<u64> = clock
        .split(':')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let seconds = match clock[..] {
        [hours, minutes, seconds] => (hours * 60 + minutes) * 60 + seconds,
        [minutes, seconds] => minutes * 60 + seconds,
        _ => return None,
    };
    Some(days * 86_400 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_kinds_are_read() {
        let philly =
            parse("submit_s,duration_s,gpus,vc\n100,50,8,7f04ca\n90,5,1,6214e9\n").unwrap();
        assert_eq!(philly.len(), 2);
        assert_eq!((philly[0].submit_s, philly[1].submit_s), (0, 10));
        assert_eq!((philly[1].duration_s, philly[1].gpus), (50, 8));
        let openb = parse(
            "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n\
             a,1,460,10,110,20\nb,0,0,10,110,20\nc,2,1000,10,110,\n",
        )
        .unwrap();
        assert_eq!(openb.len(), 1);
        assert_eq!(openb[0].duration_s, 90);
        let sacct = parse(
            "JobID|Submit|Start|End|Timelimit|AllocTRES|Account\n\
             7|2026-03-01T00:00:10|2026-03-01T00:01:00|2026-03-01T01:01:00|1-02:00:00|billing=8,gres/gpu=8,node=1|ml\n\
             8|2026-03-01T00:00:00|Unknown|Unknown|01:00:00||ml\n\
             9|2026-02-28T23:59:59|2026-03-01T00:00:00|2026-03-01T00:00:30|10:00|cpu=1|\"ml\n",
        )
        .unwrap();
        assert_eq!(
            sacct,
            [Traced {
                submit_s: 0,
                duration_s: 3600,
                gpus: 8,
                account: Some("ml".into()),
                limit_s: Some(93_600),
            }]
        );
    }

    #[test]
    fn faults_name_the_line() {
        let error = parse("submit_s,duration_s,gpus,vc\n1,2,3,a\n1,x,3,a\n").unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("line 3") && error.contains("duration_s"),
            "{error}"
        );
        assert!(
            parse("a,b\n1,2\n")
                .unwrap_err()
                .to_string()
                .contains("line 1")
        );
    }

    #[test]
    fn times_are_seconds_since_1970() {
        assert_eq!(time("1970-01-01T00:00:00"), Some(0));
        assert_eq!(time("2000-02-29T12:00:00"), Some(951_825_600));
        assert_eq!(time("2026-01-01T00:00:00"), Some(1_767_225_600));
        assert_eq!(time("Unknown"), None);
    }

    #[test]
    fn the_committed_traces_are_whole() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
        let philly = read(&folder.join("philly_jobs.csv")).unwrap();
        assert_eq!(philly.len(), 82_247);
        let one = philly.iter().filter(|job| job.gpus == 1).count();
        assert!(one * 100 / philly.len() == 93, "{one}");
        let openb = read(&folder.join("openb_pod_list_default.csv")).unwrap();
        assert!(openb.len() > 5_000, "{}", openb.len());
    }
}
