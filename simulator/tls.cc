#include "simulator/tls.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"

namespace headrace::simulator {
namespace {

struct KeyDeleter {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct CertDeleter {
  void operator()(X509* cert) const { X509_free(cert); }
};
using Key = std::unique_ptr<EVP_PKEY, KeyDeleter>;
using Cert = std::unique_ptr<X509, CertDeleter>;

std::string LastError() {
  char text[256];
  ERR_error_string_n(ERR_peek_last_error(), text, sizeof(text));
  ERR_clear_error();
  return text;
}

int ChooseAlpn(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
               unsigned int in_size, void*) {
  static constexpr unsigned char kOurs[] = "\x02h2\x08http/1.1";
  unsigned char* chosen = nullptr;
  const int result =
      SSL_select_next_proto(&chosen, out_size, kOurs, sizeof(kOurs) - 1, in, in_size);
  if (result != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

absl::StatusOr<SslCtx> NewContext() {
  SslCtx ctx(SSL_CTX_new(TLS_server_method()));
  if (ctx == nullptr) return absl::InternalError(absl::StrCat("SSL_CTX_new: ", LastError()));
  SSL_CTX_set_min_proto_version(ctx.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(ctx.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(ctx.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // One read(2) takes a whole record instead of its header first.
  SSL_CTX_set_read_ahead(ctx.get(), 1);
  SSL_CTX_set_alpn_select_cb(ctx.get(), ChooseAlpn, nullptr);
  return ctx;
}

bool AddExtension(X509* cert, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(cert, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

Cert MakeCert(EVP_PKEY* key, const char* name, X509* issuer, EVP_PKEY* issuer_key) {
  Cert cert(X509_new());
  const bool is_ca = issuer == nullptr;
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert.get()), RandomSeed() >> 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 10L * 24 * 3600);
  X509_set_pubkey(cert.get(), key);
  X509_NAME* subject = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509* const signer = is_ca ? cert.get() : issuer;
  X509_set_issuer_name(cert.get(), X509_get_subject_name(signer));
  bool good = AddExtension(cert.get(), signer, NID_subject_key_identifier, "hash");
  if (is_ca) {
    good = good && AddExtension(cert.get(), signer, NID_basic_constraints, "critical,CA:TRUE") &&
           AddExtension(cert.get(), signer, NID_key_usage, "critical,keyCertSign,cRLSign");
  } else {
    good =
        good && AddExtension(cert.get(), signer, NID_authority_key_identifier, "keyid") &&
        AddExtension(cert.get(), signer, NID_basic_constraints, "critical,CA:FALSE") &&
        AddExtension(cert.get(), signer, NID_ext_key_usage, "serverAuth") &&
        AddExtension(cert.get(), signer, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1");
  }
  if (!good || X509_sign(cert.get(), is_ca ? key : issuer_key, EVP_sha256()) == 0) return nullptr;
  return cert;
}

std::string ToPem(X509* cert) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, cert);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string pem(data, static_cast<size_t>(size));
  BIO_free(bio);
  return pem;
}

}  // namespace

absl::StatusOr<SslCtx> ServerContextFromFiles(const std::string& cert_file,
                                              const std::string& key_file) {
  absl::StatusOr<SslCtx> ctx = NewContext();
  if (!ctx.ok()) return ctx;
  if (SSL_CTX_use_certificate_chain_file(ctx->get(), cert_file.c_str()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("cert ", cert_file, ": ", LastError()));
  }
  if (SSL_CTX_use_PrivateKey_file(ctx->get(), key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(ctx->get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("key ", key_file, ": ", LastError()));
  }
  return ctx;
}

absl::StatusOr<SslCtx> ServerContextSelfSigned(std::string* ca_pem) {
  absl::StatusOr<SslCtx> ctx = NewContext();
  if (!ctx.ok()) return ctx;
  const Key ca_key(EVP_EC_gen("P-256"));
  const Key key(EVP_EC_gen("P-256"));
  if (ca_key == nullptr || key == nullptr) {
    return absl::InternalError(absl::StrCat("EVP_EC_gen: ", LastError()));
  }
  const Cert ca = MakeCert(ca_key.get(), "headrace simulator CA", nullptr, nullptr);
  if (ca == nullptr) return absl::InternalError(absl::StrCat("CA: ", LastError()));
  const Cert cert = MakeCert(key.get(), "localhost", ca.get(), ca_key.get());
  if (cert == nullptr) return absl::InternalError(absl::StrCat("certificate: ", LastError()));
  if (SSL_CTX_use_certificate(ctx->get(), cert.get()) != 1 ||
      SSL_CTX_use_PrivateKey(ctx->get(), key.get()) != 1) {
    return absl::InternalError(absl::StrCat("certificate: ", LastError()));
  }
  *ca_pem = ToPem(ca.get());
  return ctx;
}

}  // namespace headrace::simulator
