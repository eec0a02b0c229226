#include "src/report/pictures/pango_library.h"

#include <dlfcn.h>
#include <spdlog/spdlog.h>

#include <optional>

namespace octet {
namespace {

std::optional<PangoLibrary> loaded() {
  void* const handle = dlopen("libpangoft2-1.0.so.0", RTLD_NOW | RTLD_LOCAL);
  PangoLibrary library;
  bool complete = handle != nullptr;
#define OCTET_FIND(member, function)                                                                 \
  if (handle) library.member = reinterpret_cast<decltype(library.member)>(dlsym(handle, #function)); \
  complete = complete && library.member;
  OCTET_PANGO_FUNCTIONS(OCTET_FIND)
#undef OCTET_FIND
  if (complete) return library;
  spdlog::warn("pictures have no texts: Pango cannot be loaded; install libpangoft2-1.0-0");
  return {};
}

}  // namespace

const PangoLibrary* pango_library() {
  static const std::optional<PangoLibrary> library = loaded();
  return library ? &*library : nullptr;
}

}  // namespace octet
