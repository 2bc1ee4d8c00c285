#include "tests/support/test_certificate.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "common/base/log.h"

namespace headrace {
namespace {

void AddExtension(X509* cert, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, cert, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  HR_CHECK(extension != nullptr);
  X509_add_ext(cert, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* MakeCertificate(EVP_PKEY* key) {
  X509* cert = X509_new();
  X509_set_version(cert, 2);  // X.509 version 3
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), 24 * 3600);
  X509_set_pubkey(cert, key);
  X509_NAME* name = X509_get_subject_name(cert);
  // A name of its own, so that one bundle can hold several: OpenSSL finds an issuer by its name.
  static std::atomic<int> made = 0;
  const std::string common_name = "test " + std::to_string(++made);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  X509_set_issuer_name(cert, name);
  AddExtension(cert, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(cert, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  HR_CHECK(X509_sign(cert, key, EVP_sha256()) > 0);
  return cert;
}

}  // namespace

TestCertificate::TestCertificate() {
  char pattern[] = "/tmp/headrace_cert_XXXXXX";
  HR_CHECK(mkdtemp(pattern) != nullptr);
  directory_ = pattern;
  cert_file_ = directory_ + "/cert.pem";
  key_file_ = directory_ + "/key.pem";

  EVP_PKEY* key = EVP_EC_gen("P-256");
  HR_CHECK(key != nullptr);
  X509* cert = MakeCertificate(key);
  FILE* cert_out = fopen(cert_file_.c_str(), "w");
  FILE* key_out = fopen(key_file_.c_str(), "w");
  HR_CHECK(cert_out != nullptr && key_out != nullptr);
  PEM_write_X509(cert_out, cert);
  PEM_write_PrivateKey(key_out, key, nullptr, nullptr, 0, nullptr, nullptr);
  fclose(cert_out);
  fclose(key_out);
  X509_free(cert);
  EVP_PKEY_free(key);
}

TestCertificate::~TestCertificate() {
  unlink(cert_file_.c_str());
  unlink(key_file_.c_str());
  rmdir(directory_.c_str());
}

}  // namespace headrace
