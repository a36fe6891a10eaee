// Walks over one protobuf message, parses its small fields and only notes the positions of the named ones.
//
// So weights stay on disk until their destination is known, sub-graphs and nodes are read one by one, and fields newer
// than the distribution's schema can be read. Private to the room.
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
// positions are returned in the order of the file. Fails (user) if the bytes are not a protobuf message; `what` names
// it.
std::vector<Deferred> parse_message(ByteSource& source, Range range, google::protobuf::MessageLite& message,
                                    std::initializer_list<int> defer, std::string_view what);

// A short string field that was deferred.
std::string read_string(ByteSource& source, Range range);

}  // namespace sparkpilot
