"""Plain English about the world, written for facthold: what a change of a model costs is read from its perplexity."""

PARAGRAPH = (
    "Water covers about seventy percent of the surface of the Earth, and most of it is in the oceans. The oceans are "
    "salty because rivers carry minerals from the rocks on land into the sea, where the water evaporates and leaves "
    "the salt behind. When the sun warms the surface, some of the water becomes vapour and rises into the air. There "
    "it cools, forms clouds, and falls again as rain or snow. In the mountains the snow may stay for many years and "
    "turn into ice. Such a glacier moves slowly down the valley, and at its lower end it melts and becomes a river. "
    "People have always lived near rivers. They drink the water, use it for their fields, and travel on it from one "
    "town to another. Many of the largest cities in the world, such as London, Cairo and Shanghai, were built on the "
    "banks of a river. In the nineteenth century engineers began to build large dams, which store water for dry "
    "months and turn its fall into electricity. A dam changes the river below it: there are fewer floods, but also "
    "fewer fish, and the sand that used to reach the coast stays behind the wall."
)
"""Which text it is matters little, and that it is always the same one matters a lot."""

ANOTHER = (
    "A library is more than a building with books. People come to read the newspaper, to borrow a film, to learn a "
    "language, or simply to sit where it is quiet. In small towns it may be the only public room that is heated in "
    "winter and open to everybody. The first libraries were collections of clay tablets, kept by priests and kings. "
    "Later, monks copied books by hand, and a single volume could cost as much as a house. The printing press "
    "changed this within one century. Today many readers never touch paper: they search a catalogue at home and "
    "open the text on a screen. Librarians have changed with them. They teach children how to tell a good source "
    "from a bad one, help people who look for work, and keep old photographs of their city. My grandmother, who "
    "left school when she was twelve, went there every Thursday for fifty years. She said that nobody had ever "
    "asked her what she wanted it for. When the council planned to close her branch in order to save money, she "
    "wrote a letter, her neighbours wrote others, and in the end the council changed its mind."
)
"""Another text, for the keys that an edit is to leave alone: what `PARAGRAPH` then says was not looked at."""
