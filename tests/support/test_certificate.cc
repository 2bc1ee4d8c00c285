#include "tests/support/test_certificate.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "common/base/log.h"

namespace headrace::http {
namespace {

void AddExtension(X509* certificate, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  HR_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace

TestCertificate::TestCertificate() : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
  HR_CHECK(key_ != nullptr && certificate_ != nullptr);
  X509_set_version(certificate_, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate_), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate_), 3600);
  X509_set_pubkey(certificate_, key_);
  X509_NAME* name = X509_get_subject_name(certificate_);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate_, name);
  AddExtension(certificate_, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate_, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  HR_CHECK(X509_sign(certificate_, key_, EVP_sha256()) > 0);

  const char* directory = std::getenv("TMPDIR");
  path_ = directory == nullptr ? "/tmp" : directory;
  path_ += "/headrace_test_ca_XXXXXX";
  const int fd = mkstemp(path_.data());
  HR_CHECK(fd >= 0);
  std::FILE* file = fdopen(fd, "w");
  HR_CHECK(PEM_write_X509(file, certificate_) == 1);
  HR_CHECK(std::fclose(file) == 0);
}

TestCertificate::~TestCertificate() {
  unlink(path_.c_str());
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

void TestCertificate::UseIn(SSL_CTX* context) const {
  HR_CHECK(SSL_CTX_use_certificate(context, certificate_) == 1);
  HR_CHECK(SSL_CTX_use_PrivateKey(context, key_) == 1);
}

}  // namespace headrace::http
