//! Recognises names that mark a secret, with one list of words for environment variables and form fields.
//!
//! A name is split into words at every character that is not a letter or digit and at camel case boundaries, so that
//! `MONKEY`, `AUTHOR` and `KEYBOARD` mark nothing. The last word determines the kind of value: `SECRET_NAME` is a
//! name and `TOKEN_FILE` a path.

use super::super::login::token_of_variable;

/// Words that mark a secret at any position in a name.
const ANYWHERE: &[&str] = &[
    "SECRET",
    "SECRETS",
    "TOKEN",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "PASSCODE",
    "CREDENTIAL",
    "CREDENTIALS",
    "COOKIE",
    "COOKIES",
    "BEARER",
];

/// Words that mark a secret as the last one of a name. In front they only name a topic.
const LAST: &[&str] = &["AUTH", "AUTHORIZATION", "PASS", "JWT", "DSN"];

/// Words that mark a secret as the last of several: `PWD` alone is a directory.
const LAST_OF_SEVERAL: &[&str] = &["PWD", "PAT"];

/// Endings of compound words. `TOKEN` is in the list and `KEY` is not, because of `MONKEY`.
const ENDINGS: &[&str] = &[
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "TOKEN",
    "APIKEY",
    "ACCESSKEY",
    "SECRETKEY",
    "PRIVATEKEY",
    "AUTHKEY",
    "CREDENTIALS",
];

/// Whole names that no rule matches.
const WHOLE: &[&str] = &["SSHPASS", "DOCKER_AUTH_CONFIG"];

/// Last words of names whose values only describe a secret.
const ABOUT: &[&str] = &[
    "ID",
    "IDS",
    "NAME",
    "NAMES",
    "USER",
    "USERNAME",
    "FILE",
    "FILES",
    "FILENAME",
    "PATH",
    "DIR",
    "DIRECTORY",
    "SOCK",
    "SOCKET",
    "URL",
    "URI",
    "ENDPOINT",
    "HOST",
    "HOSTNAME",
    "PORT",
    "DOMAIN",
    "REGION",
    "TYPE",
    "KIND",
    "MODE",
    "METHOD",
    "PROVIDER",
    "BACKEND",
    "STORE",
    "HELPER",
    "ALGORITHM",
    "ALG",
    "ISSUER",
    "AUDIENCE",
    "SCOPE",
    "SCOPES",
    "HEADER",
    "PREFIX",
    "SUFFIX",
    "VERSION",
    "FORMAT",
    "LENGTH",
    "SIZE",
    "COUNT",
    "LIMIT",
    "MIN",
    "MAX",
    "TTL",
    "TIMEOUT",
    "AGE",
    "EXPIRY",
    "EXPIRES",
    "EXPIRATION",
    "ENABLED",
    "DISABLED",
    "REQUIRED",
];

/// Whether the value under this name is a secret: by a word of the name, or as a login credential.
pub fn is_secret_name(name: &str) -> bool {
    if token_of_variable(name).is_some() || WHOLE.iter().any(|whole| whole.eq_ignore_ascii_case(name)) {
        return true;
    }
    let words = words(name);
    let Some((last, before)) = words.split_last() else { return false };
    if ABOUT.contains(&last.as_str()) {
        return false;
    }
    let marks = |word: &String| {
        ANYWHERE.contains(&word.as_str()) || ENDINGS.iter().any(|ending| word.ends_with(ending))
    };
    LAST.contains(&last.as_str())
        || (!before.is_empty() && LAST_OF_SEVERAL.contains(&last.as_str()))
        || words.iter().any(marks)
        || has_key(&words)
        || words.ends_with(&["CONNECTION".to_owned(), "STRING".to_owned()])
}

/// Whether one of the words is a private key. `KEY_BINDINGS` begins with another kind of key, and a public key is not
/// secret.
fn has_key(words: &[String]) -> bool {
    let is_key = |word: &str| word == "KEY" || word == "KEYS";
    let is_public = |word: &str| word == "PUBLIC" || word == "PUBLISHABLE";
    let alone = words.len() == 1 && words.first().is_some_and(|word| is_key(word));
    alone || words.windows(2).any(|pair| is_key(&pair[1]) && !is_public(&pair[0]))
}

/// The words of a name in capitals, without trailing digits.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let characters: Vec<char> = name.chars().collect();
    for (at, &character) in characters.iter().enumerate() {
        if !character.is_ascii_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = at.checked_sub(1).and_then(|at| characters.get(at));
        let is_lower_after = characters.get(at + 1).is_some_and(char::is_ascii_lowercase);
        let begins = character.is_ascii_uppercase()
            && before.is_some_and(|before| !before.is_ascii_uppercase() || is_lower_after);
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(character.to_ascii_uppercase());
        }
    }
    let unnumbered =
        |word: String| word.trim_end_matches(|character: char| character.is_ascii_digit()).to_owned();
    words.into_iter().map(unnumbered).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variable_names_that_mark_a_secret() {
        let secret = "API_KEY OPENAI_API_KEY ANTHROPIC_API_KEY_2 API_KEY_OPENAI API_KEYS SECRET_KEY_BASE \
            AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN SESSION_KEY ENCRYPTION_KEY_V2 SSH_PRIVATE_KEY KEY APIKEY \
            MY_APIKEY GH_TOKEN GITHUB_TOKEN_PROD CLAUDE_CODE_OAUTH_TOKEN TOKEN TOKEN1 AUTHTOKEN \
            NPM_CONFIG__AUTHTOKEN npm_config__authToken npm_config__auth DB_PASSWORD PGPASSWORD db_password \
            MYSQL_ROOT_PASSWORD PASSWORD_STAGING DB_PASSWD SMTP_PASS SSHPASS MYSQL_PWD GPG_PASSPHRASE \
            CLIENT_SECRET OAUTH2_CLIENT_SECRET SECRETS GOOGLE_APPLICATION_CREDENTIALS CREDENTIAL BASIC_AUTH \
            REDISCLI_AUTH PROXY_AUTHORIZATION SESSION_COOKIE GITHUB_PAT SUPABASE_JWT DATABASE_DSN \
            AZURE_STORAGE_CONNECTION_STRING DOCKER_AUTH_CONFIG ACPX_AUTH_CHATGPT ACPX_AUTH_API_KEY_ID \
            PASSWORD_HASH NEXT_PUBLIC_API_KEY";
        let missed: Vec<&str> = secret.split_whitespace().filter(|name| !is_secret_name(name)).collect();
        assert_eq!(missed, [""; 0]);
    }

    #[test]
    fn environment_variable_names_that_mark_no_secret() {
        let plain = "_ PATH HOME PWD OLDPWD NODE_ENV REGION AWS_REGION DATABASE_URL HTTPS_PROXY MONKEY MONKEY_PATCH \
            KEYBOARD KEYBOARD_LAYOUT KEYTIMEOUT LESSKEY HOTKEYS_FILE KEY_BINDINGS GNOME_KEYRING_CONTROL \
            AUTHOR GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL XAUTHORITY SSH_AUTH_SOCK AUTH_MODE AUTH0_DOMAIN \
            GIT_ASKPASS SSH_ASKPASS COMPASS BYPASS PASS_THROUGH MAX_TOKENS CLAUDE_CODE_MAX_OUTPUT_TOKENS \
            TOKENIZERS_PARALLELISM TOKEN_LIMIT AWS_ACCESS_KEY_ID SSH_PUBLIC_KEY STRIPE_PUBLISHABLE_KEY \
            SSH_KEY_PATH TLS_KEY_FILE AWS_WEB_IDENTITY_TOKEN_FILE AWS_SHARED_CREDENTIALS_FILE \
            CREDENTIALS_DIRECTORY SECRET_NAME PASSWORD_MIN_LENGTH PASSWORD_STORE_DIR OAUTH_CLIENT_ID \
            OAUTH_TOKEN_URL JWT_ALGORITHM COOKIE_DOMAIN XDG_SESSION_ID DBUS_SESSION_BUS_ADDRESS \
            CONNECTION_TIMEOUT SECRETARY PATTERN PAT GOPRIVATE";
        let marked: Vec<&str> = plain.split_whitespace().filter(|name| is_secret_name(name)).collect();
        assert_eq!(marked, [""; 0]);
    }

    #[test]
    fn form_field_names_that_mark_a_secret() {
        let secret = [
            "apiKey",
            "APIKey",
            "accessToken",
            "password",
            "passwordConfirm",
            "client-secret",
            "Your password",
        ];
        assert!(secret.into_iter().all(is_secret_name));
        let plain = ["keyboard", "author", "maxTokens", "keyId", "tokenName", "monkey", "user", "Öl"];
        assert!(!plain.into_iter().any(is_secret_name));
        assert!(!is_secret_name("") && !is_secret_name("_"));
    }
}
