//! [`Renumbering`]: requests of a workload as part of another one.

use crate::prompt::{ContentId, Prompt, Segment};
use crate::request::{Request, RequestId};

/// New numbers of a workload's requests, by their old ones. Whatever a prompt quotes of answers to requests that
/// have a new number is renamed with them.
#[derive(Debug, Default)]
pub(crate) struct Renumbering {
    new: Vec<RequestId>,
}

impl Renumbering {
    /// A request of the workload as number `id`.
    pub(crate) fn apply(&mut self, mut request: Request, id: RequestId) -> Request {
        if request.output_content == ContentId::output_of(request.id) {
            request.output_content = ContentId::output_of(id);
        }
        self.note(request.id, id);
        let segments = request.prompt.segments();
        if segments
            .iter()
            .any(|segment| segment.content.as_output().is_some())
        {
            let segments = segments.iter().map(|&segment| Segment {
                content: self.content(segment.content),
                ..segment
            });
            request.prompt =
                Prompt::new(segments).expect("renaming content leaves the lengths as they are");
        }
        request.id = id;
        request
    }

    /// What the workload calls `old` is number `id` from now on.
    pub(crate) fn note(&mut self, old: RequestId, id: RequestId) {
        if self.new.len() <= old.index() {
            self.new.resize(old.index() + 1, id);
        }
        self.new[old.index()] = id;
    }

    fn content(&self, content: ContentId) -> ContentId {
        content
            .as_output()
            .and_then(|old| self.new.get(old.index()))
            .map_or(content, |&new| ContentId::output_of(new))
    }
}
