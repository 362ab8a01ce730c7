// SGLang's host functions compare and print the types of tensors.
#pragma once
#include <dlpack/dlpack.h>

#include <ostream>
inline bool operator==(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }
inline std::ostream& operator<<(std::ostream& to, DLDataType type) { return to << "type " << (int)type.code << " of " << (int)type.bits << " bits"; }
