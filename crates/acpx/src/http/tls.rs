//! TLS for the server and the client, with one crypto provider for the whole program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file has no certificate or no key.
    #[error("cannot read {what} in {}", file.display())]
    File {
        /// What the file should contain.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// The error of reading it.
        #[source]
        source: pem::Error,
    },
    /// The certificate and the key do not match or are unusable.
    #[error("cannot use the certificate")]
    Unusable(#[source] rustls::Error),
    /// This machine has no trusted root certificates.
    #[error("no trusted certificates are found on this machine")]
    NoRoots,
}

/// Creates the acceptor for a certificate chain and its key.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let problem = |what, file: &Path, source| TlsError::File { what, file: file.to_owned(), source };
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| problem("a certificate", certificate, error))?;
    if chain.is_empty() {
        return Err(problem("a certificate", certificate, pem::Error::NoItemsFound));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| problem("a private key", key, error))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, secret);
    let mut config = config.map_err(TlsError::Unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Creates a connector that trusts this machine's roots; it offers HTTP/2 only if `http2` is set.
pub(crate) fn connector(http2: bool) -> Result<TlsConnector, TlsError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(TlsError::NoRoots);
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Unusable)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let spoken: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = spoken.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
