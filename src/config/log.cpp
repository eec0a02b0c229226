#include "src/config/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "kernels/base/host_name.h"
#include "kernels/base/text.h"

namespace octet {
namespace {

// The flag "%*": the level of a message, and nothing for ordinary messages.
class LevelFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    if (message.level == spdlog::level::info) return;
    const std::string level = std::string(spdlog::level::to_string_view(message.level).data()) + ": ";
    out.append(level.data(), level.data() + level.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<LevelFlag>(); }
};

// The flag "%!": the message, in which names of files may hold anything.
class MessageFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = printable({message.payload.data(), message.payload.size()}, /*lines=*/true);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<MessageFlag>(); }
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
  formatter->add_flag<LevelFlag>('*').add_flag<MessageFlag>('!');
  formatter->set_pattern(clear + "octet: %Y-%m-%d %H:%M:%S " + host_name() +
                         (rank == 0 ? ": %*%!" : " rank " + std::to_string(rank) + ": %*%!"));
  auto logger = std::make_shared<spdlog::logger>("octet", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::move(formatter));
  logger->set_level(rank == 0 ? spdlog::level::info : spdlog::level::warn);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace octet
