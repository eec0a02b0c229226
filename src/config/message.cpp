#include "src/config/message.h"

#include <new>
#include <system_error>

#include "kernels/base/text.h"

namespace octet {
namespace {

std::string plain_message_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return "not enough memory; fix: use a smaller data.batch, or with unified_int8 storage: int8; `octet plan` prints "
           "the memory that a training needs";
  if (lacks_threads(error))
    return say(error.what(), "; fix: lower data.workers, or raise the limit of threads (ulimit -u)");
  if (dynamic_cast<const std::system_error*>(&error))
    return say(error.what(), "; fix: check the path, the free space and the permissions");
  return error.what();
}

}  // namespace

bool lacks_threads(const std::exception& error) {
  const auto* const of_system = dynamic_cast<const std::system_error*>(&error);
  return of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again;
}

std::string message_of(const std::exception& error) { return printable(plain_message_of(error), /*lines=*/true); }

}  // namespace octet
