//! A trace with device times: everything of the replayed trace, and the measurements.

use crate::profile::{Measurement, Times};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use trace::Trace;
use trace::file::record::{self, Name, Profile, Timed, with_body};
use trace::write::extend::Extension;

/// A copy of the replayed trace, extended by TIMED records.
pub struct TimedTrace {
    /// None once writing has failed.
    extension: Option<Extension>,
    failure: Option<io::Error>,
    names: HashMap<String, u32>,
}

impl TimedTrace {
    /// Copies the trace into an empty file.
    pub fn begin(trace: &Trace, file: File) -> io::Result<TimedTrace> {
        let extension = Extension::begin(trace, file)?;
        Ok(TimedTrace { extension: Some(extension), failure: None, names: HashMap::new() })
    }

    /// The size of the file in bytes.
    pub fn finish(
        &mut self,
        trace: &Trace,
        profile: &Profile,
        judge: impl FnOnce(&Trace) -> (String, Vec<String>),
    ) -> io::Result<u64> {
        self.push(&with_body(record::PROFILE, profile));
        match (self.extension.take(), self.failure.take()) {
            (Some(extension), None) => extension.finish(trace, judge),
            (_, failure) => Err(failure.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn push(&mut self, record: &[u8]) {
        if let Some(Err(error)) = self.extension.as_mut().map(|extension| extension.push(record)) {
            (self.extension, self.failure) = (None, Some(error));
        }
    }
}

impl Times for TimedTrace {
    fn record(&mut self, timed: Timed, kernel: Option<&str>) {
        let name = match kernel.map(|kernel| (kernel, self.names.get(kernel))) {
            None => 0,
            Some((_, Some(number))) => *number,
            Some((kernel, None)) => {
                let (number, name) = (self.names.len() as u32 + 1, kernel.to_owned());
                self.push(&with_body(record::NAMED, &Name { number, name: name.clone() }));
                self.names.insert(name, number);
                number
            }
        };
        self.push(&with_body(record::TIMED, &Timed { name, ..timed }));
    }
}

impl Measurement {
    /// The record that stands behind what was measured.
    pub fn profile(&self, driver: String) -> Profile {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Profile {
            created: now.as_nanos() as u64,
            source: self.source,
            version: self.version,
            why: self.why.clone(),
            driver,
            driver_version: self.driver_version,
            devices: self.devices.clone(),
            offset: self.offset,
            uncertainty: self.uncertainty,
            works: self.works,
            untimed: self.untimed.clone(),
            more: Vec::new(),
        }
    }
}
