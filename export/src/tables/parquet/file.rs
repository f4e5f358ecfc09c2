//! One Apache Parquet file: row groups of columns, each one page, compressed with zstd, with the index at the
//! end. Numbers are plain; texts are plain or numbers into a dictionary.

use super::thrift::{Compact, structure, varint};
use crate::tables::nsys::rows::{Batch, Filled, Values};
use crate::tables::nsys::schema::{Column, Kind};
use analysis::error::{Error, Result};
use std::collections::HashMap;
use std::fs::File as Disk;
use std::io::{BufWriter, Write};

const MAGIC: &[u8] = b"PAR1";

// By numbers of parquet.thrift: types,
const INT64: i32 = 2;
const DOUBLE: i32 = 5;
const BYTE_ARRAY: i32 = 6;
// the type that the bytes of a text are,
const UTF8: i32 = 0;
// encodings,
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;
// and the compression.
const ZSTD: i32 = 6;
const LEVEL: i32 = 3;

/// Texts of a column beyond which there is no dictionary.
const WORDS: usize = 1 << 12;

pub(super) struct File {
    to: BufWriter<Disk>,
    at: u64,
    columns: Vec<Column>,
    groups: Vec<Group>,
}

/// What was written of some rows.
struct Group {
    rows: usize,
    chunks: Vec<Chunk>,
}

struct Chunk {
    kind: Kind,
    name: &'static str,
    values: usize,
    missing: usize,
    encodings: Vec<i32>,
    dictionary_at: Option<u64>,
    data_at: u64,
    /// Headers of pages are in both.
    plain: u64,
    packed: u64,
    /// Of whole numbers.
    range: Option<(i64, i64)>,
}

impl File {
    pub(super) fn new(disk: Disk, columns: impl Iterator<Item = Column>) -> Result<File> {
        let mut file = File { to: BufWriter::new(disk), at: 0, columns: columns.collect(), groups: Vec::new() };
        file.write(MAGIC)?;
        Ok(file)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// A row group.
    pub(super) fn write_group(&mut self, batch: &Batch) -> Result<()> {
        let chunks = batch.columns.iter().map(|filled| self.chunk(filled)).collect::<Result<Vec<_>>>()?;
        self.groups.push(Group { rows: batch.rows, chunks });
        Ok(())
    }

    fn chunk(&mut self, filled: &Filled) -> Result<Chunk> {
        let mut page = Vec::new();
        if !filled.column.is_required {
            levels(&mut page, &filled.present);
        }
        let mut chunk = Chunk {
            kind: filled.column.kind,
            name: filled.column.name,
            values: filled.present.len(),
            missing: filled.present.iter().filter(|is_there| !**is_there).count(),
            encodings: vec![PLAIN, RLE],
            dictionary_at: None,
            data_at: 0,
            plain: 0,
            packed: 0,
            range: None,
        };
        let mut encoding = PLAIN;
        match &filled.values {
            Values::Integer(values) => {
                chunk.range = values.iter().copied().min().zip(values.iter().copied().max());
                values.iter().for_each(|value| page.extend(value.to_le_bytes()));
            }
            Values::Real(values) => values.iter().for_each(|value| page.extend(value.to_le_bytes())),
            Values::Text(values) => match Dictionary::build(values) {
                Some(words) => {
                    chunk.dictionary_at = Some(self.at);
                    chunk.encodings.push(RLE_DICTIONARY);
                    encoding = RLE_DICTIONARY;
                    let count = count(words.texts.len())?;
                    let body = words.texts.iter().fold(Vec::new(), |mut body, text| {
                        put_text(&mut body, text);
                        body
                    });
                    self.page(&mut chunk, &body, |head| {
                        head.int(1, 2);
                        |head: &mut Compact| _ = head.inner(7, |of| _ = of.int(1, count).int(2, PLAIN))
                    })?;
                    words.encode_numbers(&mut page);
                }
                None => values.iter().for_each(|text| put_text(&mut page, text)),
            },
        }
        chunk.data_at = self.at;
        let values = count(chunk.values)?;
        self.page(&mut chunk, &page, |head| {
            head.int(1, 0);
            move |head: &mut Compact| {
                head.inner(5, |of| _ = of.int(1, values).int(2, encoding).int(3, RLE).int(4, RLE));
            }
        })?;
        Ok(chunk)
    }

    /// A page behind its header. `about`: writes the page's kind, and gives what writes the rest of it.
    fn page<Rest: FnOnce(&mut Compact)>(
        &mut self,
        chunk: &mut Chunk,
        body: &[u8],
        about: impl FnOnce(&mut Compact) -> Rest,
    ) -> Result<()> {
        let packed = zstd::bulk::compress(body, LEVEL)?;
        let (plain_bytes, packed_bytes) = (count(body.len())?, count(packed.len())?);
        let head = structure(|head| {
            let rest = about(head);
            head.int(2, plain_bytes).int(3, packed_bytes);
            rest(head);
        });
        self.write(&head)?;
        self.write(&packed)?;
        chunk.plain += (head.len() + body.len()) as u64;
        chunk.packed += (head.len() + packed.len()) as u64;
        Ok(())
    }

    /// Writes what is where. Bytes.
    pub(super) fn finish(mut self) -> Result<u64> {
        let about = structure(|to| self.describe(to));
        self.write(&about)?;
        self.write(&(about.len() as u32).to_le_bytes())?;
        self.write(MAGIC)?;
        self.to.flush()?;
        Ok(self.at)
    }

    fn describe(&self, to: &mut Compact) {
        let rows: usize = self.groups.iter().map(|group| group.rows).sum();
        let elements: Vec<Option<&Column>> = [None].into_iter().chain(self.columns.iter().map(Some)).collect();
        to.int(1, 1).structs(2, &elements, |to, element| match element {
            None => _ = to.binary(4, b"row").int(5, self.columns.len() as i32),
            Some(column) => {
                let is_optional = !column.is_required;
                to.int(1, type_of(column.kind)).int(3, is_optional.into()).binary(4, column.name.as_bytes());
                if column.kind == Kind::Text {
                    to.int(6, UTF8).inner(10, |of| _ = of.inner(1, |_| {}));
                }
            }
        });
        to.long(3, rows as i64).structs(4, &self.groups, |to, group| {
            let plain: u64 = group.chunks.iter().map(|chunk| chunk.plain).sum();
            to.structs(1, &group.chunks, |to, chunk| {
                let first = chunk.dictionary_at.unwrap_or(chunk.data_at);
                to.long(2, first as i64).inner(3, |to| chunk.describe(to));
            });
            to.long(2, plain as i64).long(3, group.rows as i64);
        });
        to.binary(6, concat!("cutrace version ", env!("CARGO_PKG_VERSION")).as_bytes());
    }
}

impl Chunk {
    fn describe(&self, to: &mut Compact) {
        to.int(1, type_of(self.kind)).ints(2, &self.encodings).texts(3, &[self.name]).int(4, ZSTD);
        to.long(5, self.values as i64).long(6, self.plain as i64).long(7, self.packed as i64);
        to.long(9, self.data_at as i64);
        self.dictionary_at.into_iter().for_each(|at| _ = to.long(11, at as i64));
        to.inner(12, |of| {
            of.long(3, self.missing as i64);
            if let Some((least, most)) = self.range {
                of.binary(5, &most.to_le_bytes()).binary(6, &least.to_le_bytes());
            }
        });
    }
}

/// Of a page: the format counts in 32 bits with a sign.
fn count(of: usize) -> Result<i32> {
    i32::try_from(of)
        .map_err(|_| Error::Format(format!("a page of {of} bytes or values; Parquet allows less than 2^31").into()))
}

fn type_of(kind: Kind) -> i32 {
    match kind {
        Kind::Integer => INT64,
        Kind::Real => DOUBLE,
        Kind::Text => BYTE_ARRAY,
    }
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u32).to_le_bytes());
    to.extend(text.as_bytes());
}

/// Which rows have a value: runs of equal bits behind their length in bytes.
fn levels(to: &mut Vec<u8>, present: &[bool]) {
    let mut runs = Vec::new();
    for run in present.chunk_by(|a, b| a == b) {
        varint(&mut runs, (run.len() as u64) << 1);
        runs.push(run[0].into());
    }
    to.extend((runs.len() as u32).to_le_bytes());
    to.extend(runs);
}

/// The different texts of a column, and which stands in which row.
struct Dictionary<'x> {
    texts: Vec<&'x str>,
    numbers: Vec<u32>,
}

impl<'x> Dictionary<'x> {
    /// None if there are too many: or none.
    fn build(values: &'x [String]) -> Option<Dictionary<'x>> {
        let (mut known, mut texts) = (HashMap::new(), Vec::new());
        let mut numbers = Vec::with_capacity(values.len());
        for text in values {
            let number = *known.entry(text.as_str()).or_insert_with(|| {
                texts.push(text.as_str());
                texts.len() as u32 - 1
            });
            numbers.push(number);
            if texts.len() > WORDS {
                return None;
            }
        }
        (texts.len() * 2 <= values.len() && !texts.is_empty()).then_some(Dictionary { texts, numbers })
    }

    /// The numbers, packed in as few bits as they take, eight at a time.
    fn encode_numbers(&self, to: &mut Vec<u8>) {
        let bits = (usize::BITS - (self.texts.len() - 1).leading_zeros()).max(1);
        to.push(bits as u8);
        let groups = self.numbers.len().div_ceil(8);
        varint(to, (groups as u64) << 1 | 1);
        for eight in self.numbers.chunks(8) {
            let (mut word, mut filled) = (0u128, 0);
            for number in eight {
                word |= u128::from(*number) << filled;
                filled += bits;
            }
            to.extend(&word.to_le_bytes()[..bits as usize]);
        }
    }
}
