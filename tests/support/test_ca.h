// A certificate authority for tests, made when asked for: nothing expires in the repository.
#ifndef HEADRACE_TESTS_SUPPORT_TEST_CA_H_
#define HEADRACE_TESTS_SUPPORT_TEST_CA_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <string>

namespace headrace {

// ECDSA P-256 certificates as PEM files in a temporary directory, which goes with the object.
class TestCa {
 public:
  struct Files {
    std::string cert;
    std::string key;
  };

  TestCa();
  ~TestCa();
  TestCa(const TestCa&) = delete;
  TestCa& operator=(const TestCa&) = delete;

  const std::string& dir() const { return dir_; }
  const std::string& ca_file() const { return ca_file_; }

  // A certificate with the common name `name` and the alternative names `alt_names`, as OpenSSL
  // writes them ("DNS:localhost,IP:127.0.0.1"); none when empty. In files named after `name`, put
  // in the place of earlier ones by renaming.
  Files Issue(const std::string& name, const std::string& alt_names);

  // For a server on this machine.
  Files IssueServer(const std::string& name = "server") {
    return Issue(name, "DNS:localhost,IP:127.0.0.1");
  }

 private:
  std::string dir_;
  std::string ca_file_;
  EVP_PKEY* key_ = nullptr;
  X509* certificate_ = nullptr;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_TEST_CA_H_
