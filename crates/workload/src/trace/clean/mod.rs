//! Cleaning: steps that drop or change the rows of a trace, in the order given, and a report of what they did.
//!
//! Nothing is repaired unasked. [`CleanStep`] is a step as files describe it, [`Cleaning`] a list of them that was
//! checked, [`Cleaned`] the rows that come out at its end. Rows stream through: only steps that must look at
//! others of the trace hold any, and their descriptions say how many. Every row that a step drops, changes or
//! adds is counted by step and reason in the [`CleanReport`].
//!
//! ```
//! use foretoken_des_kernel::RngStreams;
//! use foretoken_workload::trace::{BadRows, CleanStep, Cleaning, Place, Row};
//!
//! let rows = [(900, 80), (700, 0), (20, 30)];
//! let rows = (1..).zip(rows).map(|(line, (input, output))| Ok(Row::new(Place::Line(line), input, output)));
//!
//! let steps: Vec<CleanStep> = serde_json::from_str(r#"[{"drop-lengths": {}}, {"clip-lengths": {"input": {"max": 800}}}]"#)?;
//! let mut cleaned = Cleaning::new(steps)?.apply(rows, &RngStreams::new(1, 0), BadRows::Stop);
//! let lengths: Vec<_> = cleaned.by_ref().map(|row| row.map(|row| row.input_tokens)).collect::<Result<_, _>>()?;
//! assert_eq!(lengths, [800, 20]);
//!
//! let report = cleaned.into_report();
//! assert_eq!((report.rows_in, report.rows_out, report.dropped()), (3, 2, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod filters;
mod order;
mod overlay;
mod pace;
mod repeats;
mod report;
mod step;

use std::collections::VecDeque;

use foretoken_des_kernel::{Fingerprint, RngStreams};

use super::error::TraceError;
use super::row::{Row, Rows, TraceTime};
use crate::error::WorkloadError;

pub(in crate::trace) use repeats::Retries;
pub use report::{BadRowReport, CleanReport, Reason, StepReport};
pub use step::{Bounds, CleanStep, Late, Resampling, Unit};

/// What becomes of a row that cannot be read, or that a step cannot treat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadRows {
    /// It ends the work.
    #[default]
    Stop,
    /// It is left out and counted.
    Skip,
}

/// Steps in order, each of them possible.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cleaning {
    steps: Vec<CleanStep>,
}

impl Cleaning {
    /// These steps, one after the other; none is a way to count rows.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first key that is out of range (`steps[2].drop-lengths.input`).
    pub fn new(steps: Vec<CleanStep>) -> Result<Self, WorkloadError> {
        for (number, step) in steps.iter().enumerate() {
            step.check()
                .map_err(|error| error.within(&format!("steps[{number}].{}", step.name())))?;
        }
        Ok(Self { steps })
    }

    /// The steps.
    pub fn steps(&self) -> &[CleanStep] {
        &self.steps
    }

    /// The rows that come out when `rows` go in. Steps draw from `streams`, each from streams of its own, by the
    /// row's number or by what it belongs to.
    pub fn apply<R: Rows>(&self, rows: R, streams: &RngStreams, bad_rows: BadRows) -> Cleaned<R> {
        let stages = (0..)
            .zip(&self.steps)
            .map(|(number, step)| Running {
                stage: step.start(streams, number),
                report: StepReport::new(step.name()),
                given: Vec::new(),
            })
            .collect();
        Cleaned {
            rows,
            bad_rows,
            stages,
            ready: VecDeque::new(),
            state: State::Reading,
            read: 0,
            out: 0,
            bad: BadRowReport::default(),
        }
    }
}

/// One step at work.
trait Stage: Send {
    /// Takes a row in and lets out what is ready.
    fn take(&mut self, row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError>;

    /// Lets out what is still held, or a part of it: no row follows.
    fn finish(&mut self, _exit: &mut Exit<'_>) -> Result<Held, TraceError> {
        Ok(Held::Nothing)
    }
}

/// What a step holds after it was told to finish.
enum Held {
    Nothing,
    More,
}

/// Where rows leave a step; it keeps the books.
struct Exit<'a> {
    given: &'a mut Vec<Row>,
    report: &'a mut StepReport,
}

impl Exit<'_> {
    fn keep(&mut self, row: Row) {
        self.given.push(row);
    }

    fn change(&mut self, row: Row, reason: Reason) {
        *self.report.changed.entry(reason).or_default() += 1;
        self.given.push(row);
    }

    fn add(&mut self, row: Row) {
        self.report.added += 1;
        self.given.push(row);
    }

    fn drop(&mut self, reason: Reason) {
        *self.report.dropped.entry(reason).or_default() += 1;
    }

    /// Says that the step wants no more rows: what follows in the trace need not be read.
    fn close(&mut self) {
        self.report.closed = true;
    }
}

struct Running {
    stage: Box<dyn Stage>,
    report: StepReport,
    /// Lent to the stage for each row, so that none allocates.
    given: Vec<Row>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// No row follows, and this stage is the next to let out what it holds.
    Emptying(usize),
    Over,
}

/// The rows that come out of a [`Cleaning`], made as they are asked for.
///
/// An error is the last item, unless it is about one row and [`BadRows::Skip`] was asked for.
pub struct Cleaned<R> {
    rows: R,
    bad_rows: BadRows,
    stages: Vec<Running>,
    ready: VecDeque<Row>,
    state: State,
    read: u64,
    out: u64,
    bad: BadRowReport,
}

impl<R: Rows> Cleaned<R> {
    /// What the steps have done so far: to all rows, if the last one came out.
    pub fn report(&self) -> CleanReport {
        let steps: Vec<_> = self.stages.iter().map(|it| it.report.clone()).collect();
        let untreated = steps
            .iter()
            .filter_map(|step| step.dropped.get(&Reason::Bad));
        CleanReport {
            rows_in: self.read,
            rows_out: self.out,
            bad_rows: BadRowReport {
                untreated: untreated.sum(),
                ..self.bad.clone()
            },
            steps,
        }
    }

    /// [`report`](Self::report), when no more rows are wanted.
    pub fn into_report(self) -> CleanReport {
        self.report()
    }

    /// The source, for its progress.
    pub const fn rows(&self) -> &R {
        &self.rows
    }

    /// Reads one row, or lets one stage empty itself.
    fn advance(&mut self) -> Result<(), TraceError> {
        match self.state {
            State::Reading => {
                if self.stages.iter().any(|stage| stage.report.closed) {
                    self.state = State::Emptying(0);
                    return Ok(());
                }
                match self.rows.next() {
                    Some(Ok(row)) => {
                        self.read += 1;
                        pass(&mut self.stages, row, &mut self.ready)
                            .or_else(|bad| self.bad.note(bad, self.bad_rows))
                    }
                    Some(Err(error)) => {
                        self.bad.unread += 1;
                        self.bad.note(error, self.bad_rows)
                    }
                    None => {
                        self.state = State::Emptying(0);
                        Ok(())
                    }
                }
            }
            State::Emptying(number) => {
                let Some((running, rest)) = self.stages[number..].split_first_mut() else {
                    self.state = State::Over;
                    return Ok(());
                };
                let mut exit = Exit {
                    given: &mut running.given,
                    report: &mut running.report,
                };
                if matches!(running.stage.finish(&mut exit)?, Held::Nothing) {
                    self.state = State::Emptying(number + 1);
                }
                for row in core::mem::take(&mut running.given) {
                    running.report.rows_out += 1;
                    if let Err(bad) = pass(rest, row, &mut self.ready) {
                        self.bad.note(bad, self.bad_rows)?;
                    }
                }
                Ok(())
            }
            State::Over => Ok(()),
        }
    }
}

/// Sends a row through stages into `ready`. An error says which row a stage could not treat; that stage has
/// counted it as dropped.
fn pass(stages: &mut [Running], row: Row, ready: &mut VecDeque<Row>) -> Result<(), TraceError> {
    let Some((running, rest)) = stages.split_first_mut() else {
        ready.push_back(row);
        return Ok(());
    };
    running.report.rows_in += 1;
    let mut exit = Exit {
        given: &mut running.given,
        report: &mut running.report,
    };
    if let Err(error) = running.stage.take(row, &mut exit) {
        exit.drop(Reason::Bad);
        return Err(error);
    }
    let mut given = core::mem::take(&mut running.given);
    let mut result = Ok(());
    for row in given.drain(..) {
        running.report.rows_out += 1;
        result = result.and(pass(rest, row, ready));
    }
    running.given = given;
    result
}

impl<R: Rows> Iterator for Cleaned<R> {
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                self.out += 1;
                return Some(Ok(row));
            }
            if self.state == State::Over {
                return None;
            }
            if let Err(error) = self.advance() {
                self.state = State::Over;
                self.ready.clear();
                return Some(Err(error));
            }
        }
    }
}

impl<R> core::fmt::Debug for Cleaned<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cleaned")
            .field("read", &self.read)
            .field("out", &self.out)
            .finish_non_exhaustive()
    }
}

/// When a row was sent, which `step` goes by.
fn sent(row: &Row, step: &str) -> Result<i64, TraceError> {
    row.sent.map(TraceTime::as_nanos).ok_or_else(|| {
        TraceError::bad(
            row.place,
            "sent",
            "",
            &format!("a time, by which {step} goes"),
        )
    })
}

/// Moves a row in time, with the times that were measured of its answer.
fn moved(row: &mut Row, to: i64) {
    let Some(from) = row.sent.map(TraceTime::as_nanos) else {
        return;
    };
    let by = to.saturating_sub(from);
    let shift = |time: TraceTime| TraceTime::from_nanos(time.as_nanos().saturating_add(by));
    row.sent = Some(TraceTime::from_nanos(to));
    row.first_token = row.first_token.map(shift);
    row.finished = row.finished.map(shift);
}

/// A number for a name: what is drawn for it does not depend on where it stands.
fn number_of(name: &str) -> u64 {
    Fingerprint::new().with_str(name).value()
}
