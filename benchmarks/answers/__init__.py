"""Scripts of the pages in docs/answers: a public issue, their result and ours, one command each."""
