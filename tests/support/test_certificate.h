// A self-signed certificate for TLS servers in tests.
#ifndef HEADRACE_TESTS_SUPPORT_TEST_CERTIFICATE_H_
#define HEADRACE_TESTS_SUPPORT_TEST_CERTIFICATE_H_

#include <openssl/ssl.h>

#include <string>

namespace headrace::http {

// Valid for "localhost" and 127.0.0.1, for an hour. Its file is removed when it is destroyed.
class TestCertificate {
 public:
  TestCertificate();
  ~TestCertificate();
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;

  // A PEM file with the certificate: what a client is to trust.
  const std::string& ca_file() const { return path_; }
  // Makes `context` present the certificate.
  void UseIn(SSL_CTX* context) const;

 private:
  EVP_PKEY* key_ = nullptr;
  X509* certificate_ = nullptr;
  std::string path_;
};

}  // namespace headrace::http

#endif  // HEADRACE_TESTS_SUPPORT_TEST_CERTIFICATE_H_
