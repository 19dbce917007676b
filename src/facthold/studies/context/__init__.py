"""Facts in context (the lecture's second part): the bigram task, induction heads, and the memories that make them."""
