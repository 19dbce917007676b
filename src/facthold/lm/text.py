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
