// A walk over one protobuf message that parses its small fields and only notes where the named ones lie.
//
// This is how weights stay on disk until their place is known, how sub-graphs and nodes are read one by one, and how
// fields are read that are newer than the distribution's schema. Private to the room.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "base/error.h"
#include "onnx/source.h"

namespace google::protobuf {
class MessageLite;
}

namespace sparkpilot {

// Bytes [offset, offset + length) of a source.
struct Range {
  int64_t offset = 0, length = 0;
};

// A length-delimited field that was not parsed: its contents.
struct Deferred {
  int field = 0;
  Range bytes;
};

// Parses the message at `range` into `message`, except its length-delimited fields with a number in `defer`, whose
// places come back in the order of the file. Fails (user) where the bytes are no protobuf message: `what` names it.
std::vector<Deferred> parse_message(ByteSource& source, Range range, google::protobuf::MessageLite& message,
                                    std::initializer_list<int> defer, std::string_view what);

// A short string field that was deferred.
std::string read_string(ByteSource& source, Range range);

}  // namespace sparkpilot
