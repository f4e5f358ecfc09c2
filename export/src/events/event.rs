//! The exported events, call by call.

use trace::Call;
use trace::model::decode::Decoded;
use trace::model::objects::Objects;
use trace::model::outstanding::Outstanding;
use trace::model::streams::Followed;

/// One call, and the objects alive when it is made.
pub(crate) struct Event<'s, 't> {
    pub call: Call<'t>,
    /// None if this build does not know the function, or if nothing of it is written.
    pub decoded: Option<Decoded<'t>>,
    pub objects: &'s Objects,
    /// Asked for. Of formats that say what changes with all calls, the others come, too.
    pub is_selected: bool,
    /// What came of the call; nothing for formats that do not ask.
    pub followed: Followed,
    /// Submissions that it tells to have finished, by their numbers.
    pub finished: Vec<u64>,
    /// Moved to this call, for formats that ask for it.
    pub outstanding: &'s Outstanding,
}
