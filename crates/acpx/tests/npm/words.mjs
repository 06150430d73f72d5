// The prompts of the scenario in the words that an agent understands, each with what its answer must be.

/** For the demo agent. */
export const demo = {
  hello: { say: "think tool hello", answers: /^You said: think tool hello$/ },
  permission: { say: "permission", answers: /^The edit was made\.\nYou said: permission$/ },
  slow: { say: "wait", answers: /^Waiting until cancelled\.\n$/ },
  recall: {
    say: "recall",
    answers: /^You said before:\n1\. think tool hello\n2\. permission\n3\. wait$/,
  },
  again: { say: "and again", answers: /^You said: and again$/ },
};

/** For an agent with the lab's model behind it. Some say something of their own before they ask it. */
export const model = {
  hello: { say: "hello from the lab", answers: /You said: hello from the lab$/ },
  permission: { say: "please USE A TOOL", answers: /The tool said: [^]*made by a tool/ },
  slow: { say: "please GO SLOWLY", answers: /word 1 / },
  recall: { say: "please RECALL", answers: /You said before: hello from the lab; please USE A TOOL; please GO SLOWLY/ },
  again: { say: "hello again from the lab", answers: /You said: hello again from the lab$/ },
};
