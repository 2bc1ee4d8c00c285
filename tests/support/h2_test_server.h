// The HTTP/2 TestServer: h2c with prior knowledge, or TLS with ALPN.
#ifndef HEADRACE_TESTS_SUPPORT_H2_TEST_SERVER_H_
#define HEADRACE_TESTS_SUPPORT_H2_TEST_SERVER_H_

#include <memory>
#include <string>

#include "tests/support/http_test_server.h"

namespace headrace::http {

// What only HTTP/2 servers do, beyond TestServerOptions.
struct H2ServerExtras {
  bool answers_pings = true;
  bool offers_h2 = true;     // false: its ALPN knows http/1.1 only (and it speaks nothing)
  int pings_on_connect = 0;  // PING frames it floods a new connection with
  bool shakes_hands = true;  // false: accepts, and then never says a word
};

// Listens on 127.0.0.1 from now on, on a thread of its own, until destroyed.
std::unique_ptr<TestServer> MakeH2TestServer(TestServerOptions options, H2ServerExtras extras = {});

}  // namespace headrace::http

#endif  // HEADRACE_TESTS_SUPPORT_H2_TEST_SERVER_H_
