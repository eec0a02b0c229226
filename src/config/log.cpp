#include "src/config/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/base/host_name.h"
#include "kernels/base/terminal.h"
#include "kernels/base/text.h"

namespace octet {
namespace {

// The flag "%!": the level of a message that is no ordinary one, and the message, in which names of files may hold
// anything. On a terminal it is folded.
class MessageFlag : public spdlog::custom_flag_formatter {
 public:
  explicit MessageFlag(size_t before) : before_(before) {}
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    std::string text = printable({message.payload.data(), message.payload.size()}, /*lines=*/true);
    if (message.level != spdlog::level::info)
      text = std::string(spdlog::level::to_string_view(message.level).data()) + ": " + text;
    text = folded(text, terminal_columns(STDERR_FILENO), before_);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<MessageFlag>(before_); }

 private:
  const size_t before_;  // columns of what stands before it
};

}  // namespace

void setup_log(int rank) {
  // On a terminal a message first clears the line, which may show the progress of training.
  const char* const kind = std::getenv("TERM");
  const bool dumb = kind != nullptr && std::string(kind) == "dumb";
  const bool terminal =
      (isatty(STDERR_FILENO) != 0 && !dumb) || std::getenv("OCTET_COLUMNS") != nullptr;  // launch/mpirun.sh
  const std::string clear = terminal ? "\r\033[K" : "";
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  const std::string origin = " " + host_name() + (rank == 0 ? ": " : " rank " + std::to_string(rank) + ": ");
  const std::string_view stamp = "octet: 2026-11-26 18:00:00";
  formatter->add_flag<MessageFlag>('!', stamp.size() + origin.size());
  formatter->set_pattern(clear + "octet: %Y-%m-%d %H:%M:%S" + origin + "%!");
  auto logger = std::make_shared<spdlog::logger>("octet", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::move(formatter));
  logger->set_level(rank == 0 ? spdlog::level::info : spdlog::level::warn);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace octet
