// The main function of the tests, with the transport that the launcher asks for.
#include <gtest/gtest.h>

#include "tests/comm/ranks.h"

namespace octet::test {
namespace {
std::unique_ptr<Transport> started;
}  // namespace
Transport& world() { return *started; }

void on_ranks(const std::function<void(Transport&)>& body) {
  if (world().size() > 1) return body(*world().duplicate());
  for (int ranks : {2, 3}) on_threads(ranks, body);
}
}  // namespace octet::test

int main(int argc, char** argv) {
  octet::test::started = octet::make_transport(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  if (octet::test::started->rank() != 0)
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_xml_generator());
  const int result = RUN_ALL_TESTS();
  octet::test::started.reset();
  return result;
}
