//! The prompts of the life in the words that an agent understands, each with what its answer has in it.

/// A prompt and its answer.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) say: &'static str,
    pub(crate) answers: &'static str,
}

#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) hello: Exchange,
    pub(crate) permission: Exchange,
    pub(crate) slow: Exchange,
    pub(crate) recall: Exchange,
    pub(crate) again: Exchange,
}

/// For the demo agent.
const DEMO: Words = Words {
    hello: Exchange { say: "think tool hello", answers: "You said: think tool hello" },
    permission: Exchange { say: "permission", answers: "The edit was made.\nYou said: permission" },
    slow: Exchange { say: "wait", answers: "Waiting until cancelled." },
    recall: Exchange { say: "recall", answers: "1. think tool hello\n2. permission\n3. wait" },
    again: Exchange { say: "and again", answers: "You said: and again" },
};

/// For an agent with the lab's model behind it.
const MODEL: Words = Words {
    hello: Exchange { say: "hello from the lab", answers: "You said: hello from the lab" },
    permission: Exchange { say: "please USE A TOOL", answers: "made by a tool" },
    slow: Exchange { say: "please GO SLOWLY", answers: "word 1 " },
    recall: Exchange {
        say: "please RECALL",
        answers: "You said before: hello from the lab; please USE A TOOL; please GO SLOWLY",
    },
    again: Exchange { say: "hello again from the lab", answers: "You said: hello again from the lab" },
};

/// The words of an agent.
pub(crate) fn known(name: &str) -> Option<Words> {
    match name {
        "demo" => Some(DEMO),
        "model" => Some(MODEL),
        _ => None,
    }
}
